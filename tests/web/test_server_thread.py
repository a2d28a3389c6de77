"""A server on a thread: it answers from the moment it is made, and ends streams when it is closed."""

from contextlib import closing
from time import monotonic
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

import pytest

from app.web import server_thread
from app.web.listening import listen
from app.web.server_thread import ServerThread


async def endless(scope: Any, receive: Any, send: Any) -> None:
    assert scope["type"] == "http"
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"a", "more_body": True})
    while (await receive())["type"] != "http.disconnect":
        pass


def test_it_answers_at_once_and_ends_with_a_stream_open() -> None:
    listener = listen(0)
    address = "http://{}:{}/".format(*listener.getsockname())
    server = ServerThread(endless, listener, ws="none", lifespan="off")
    with closing(urlopen(address)) as answer:
        assert answer.read(1) == b"a"
        begin = monotonic()
        server.close()
        server.close()
    assert not server.is_alive
    assert monotonic() - begin < 2
    with pytest.raises(URLError):
        urlopen(address)


def test_a_resting_server_does_not_wait_for_its_next_tick_to_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_thread, "TICK_SECONDS", 3600.0)
    server = ServerThread(endless, listen(0), ws="none", lifespan="off")
    server.close()
    assert not server.is_alive
