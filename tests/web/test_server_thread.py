"""A server on a thread: it answers at once and ends; slow connections end, and what is long on purpose does not."""

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing
from http.client import HTTPConnection
from pathlib import Path
from time import monotonic, sleep
from typing import Any, cast
from urllib.error import URLError
from urllib.request import urlopen

import pytest
import uvicorn
from uvicorn.server import ServerState
from websockets.frames import Close, Frame, Opcode

from app.web import server_thread
from app.web.listening import listen
from app.web.server_thread import MOST_WAITING, ServerThread, TimeoutProtocol, WebSocketProtocol
from tests.support.waiting import until

HEAD = b"GET / HTTP/1.1\r\nHost: localhost\r\n"
LARGE = 50_000_000
PATIENCE = 300.0
SLOW = 250
"""Connections of the flood."""


HANDSHAKE = (
    b"GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)


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
        server.close()
        server.close()
    assert not server.is_alive
    with pytest.raises(URLError):
        urlopen(address)


def test_a_resting_server_does_not_wait_for_its_next_tick_to_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_thread, "TICK_SECONDS", 3600.0)
    server = ServerThread(endless, listen(0), ws="none", lifespan="off")
    server.close()
    assert not server.is_alive


class Hasty(TimeoutProtocol):
    """Looks more often than a person would have it."""

    check_seconds = 0.3
    unread_checks = 3


async def app(scope: Any, receive: Any, send: Any) -> None:
    """Answers at once; /stream says a word every two seconds, /large more than anybody's buffers hold."""
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.accept"})
        await asyncio.sleep(2)
        await send({"type": "websocket.send", "text": "still here"})
        return
    while scope["method"] == "POST" and (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 200, "headers": []})
    if scope["path"] == "/stream":
        await send({"type": "http.response.body", "body": b"first ", "more_body": True})
        await asyncio.sleep(2)
    body = b"x" * LARGE if scope["path"] == "/large" else b"answered"
    await send({"type": "http.response.body", "body": body})


@pytest.fixture
def port() -> Iterator[int]:
    listener = socket.create_server(("127.0.0.1", 0), backlog=128)
    config = uvicorn.Config(app, http=Hasty, ws="auto", lifespan="off", log_config=None)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
    thread.start()
    until(lambda: server.started)
    yield int(listener.getsockname()[1])
    server.should_exit = server.force_exit = True
    thread.join()


def opened(port: int, said: bytes = b"") -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
    connection.sendall(said)
    return connection


def is_ended(connection: socket.socket) -> bool:
    """Whether the server has ended it; waits for that."""
    try:
        return connection.recv(1) == b""
    except ConnectionError:
        return True


def test_a_head_that_comes_a_byte_at_a_time_ends(port: int) -> None:
    with closing(opened(port)) as connection:
        end = monotonic() + PATIENCE
        with pytest.raises(ConnectionError):
            while monotonic() < end:
                connection.sendall(b"G")
                sleep(0.1)


@pytest.mark.parametrize(
    "said", [b"", HEAD, b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nno"]
)
def test_a_request_that_never_comes_whole_ends(port: int, said: bytes) -> None:
    with closing(opened(port, said)) as connection:
        assert is_ended(connection)


def test_a_response_that_nobody_reads_ends(port: int) -> None:
    with closing(opened(port, b"GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n")) as connection:
        sleep(3)
        received = 0
        with pytest.raises(ConnectionError):
            while part := connection.recv(2**20):
                received += len(part)
            raise ConnectionError
        assert received < LARGE


def test_what_is_long_on_purpose_is_left_alone(port: int) -> None:
    client = pytest.importorskip("websockets.sync.client", reason="uvicorn serves WebSockets by this package")
    with client.connect(f"ws://127.0.0.1:{port}/") as page:
        assert urlopen(f"http://127.0.0.1:{port}/stream", timeout=PATIENCE).read() == b"first answered"
        assert page.recv(timeout=PATIENCE) == "still here"


def test_a_connection_that_is_used_again_and_again_is_left_alone(port: int) -> None:
    with closing(HTTPConnection("127.0.0.1", port, timeout=PATIENCE)) as connection:
        connection.connect()
        used = connection.sock
        for _ in range(8):
            connection.request("GET", "/")
            assert connection.getresponse().read() == b"answered"
            assert connection.sock is used
            sleep(0.2)


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="only Linux tells of open files there")
def test_a_flood_of_connections_takes_few_descriptors_and_the_page_answers_meanwhile(port: int) -> None:
    def files() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    before = files()
    with ExitStack() as stack:
        for number in range(SLOW):
            stack.enter_context(closing(opened(port, b"" if number % 2 else HEAD)))
        assert urlopen(f"http://127.0.0.1:{port}/", timeout=PATIENCE).read() == b"answered"
        assert files() - before - SLOW <= MOST_WAITING + 5, "the server's own ends of them"
    until(lambda: files() <= before)


class Wire(asyncio.Transport):
    """Keeps what was written."""

    def __init__(self) -> None:
        super().__init__()
        self.written, self.is_closed = b"", False

    def get_extra_info(self, _name: str, default: Any = None) -> Any:
        return default

    def write(self, data: Any) -> None:
        self.written += data

    def close(self) -> None:
        self.is_closed = True

    def is_closing(self) -> bool:
        return self.is_closed


async def accepting(_scope: Any, receive: Any, send: Any) -> None:
    await receive()
    await send({"type": "websocket.accept"})
    while (await receive())["type"] != "websocket.disconnect":
        pass


@pytest.mark.parametrize("is_hanging_up", [False, True])
def test_a_connection_is_closed_whether_or_not_its_page_is_hanging_up(is_hanging_up: bool) -> None:
    async def run() -> Wire:
        config = uvicorn.Config(cast(Any, accepting), ws=WebSocketProtocol, log_config=None)
        config.load()
        protocol, wire = WebSocketProtocol(config, ServerState(), {}), Wire()
        protocol.connection_made(wire)
        protocol.data_received(HANDSHAKE)
        await asyncio.sleep(0.05)
        assert b"101 Switching" in wire.written
        if is_hanging_up:
            goodbye = Frame(Opcode.CLOSE, Close(1001, "").serialize()).serialize(mask=True)
            protocol.conn.receive_data(goodbye)
        protocol.shutdown()
        await asyncio.sleep(0.05)
        return wire

    assert asyncio.run(run()).is_closed
