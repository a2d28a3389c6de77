"""Pages keep values while they live and there is room, and are drawn by real connections to a real server."""

import json
import socket
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import fastapi
import pytest
import uvicorn
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from app.ui.frame.page_connections import (
    FAILED,
    KEPT,
    NOT_UNDERSTOOD,
    ROUTE,
    UNKNOWN_PAGE,
    Pages,
    PageSession,
    PageValue,
    add_page_socket,
)
from app.ui.frame.page_updates import Parts, PolledRenderer
from tests.support.waiting import PATIENCE, until

SECONDS = PATIENCE


class Server:
    """Serves pages that show a number, which changes with every look."""

    def __init__(self) -> None:
        self.pages, self.is_broken, self.activity = Pages(), False, 0
        self.looks = Counter[str]()
        app = fastapi.FastAPI()
        add_page_socket(app, self.pages, self._views, self._count_activity)
        listener = socket.create_server(("127.0.0.1", 0))
        self.port = listener.getsockname()[1]
        config = uvicorn.Config(app, ws="websockets-sansio", log_config=None, timeout_graceful_shutdown=1)
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, args=([listener],), daemon=True)
        self._thread.start()

    def _count_activity(self) -> None:
        self.activity += 1

    def _views(self, page: PageSession) -> list[PolledRenderer]:
        def render() -> Parts:
            self.looks[page.session] += 1
            # A part that is no JSON.
            return {"number": object() if self.is_broken else str(self.looks[page.session])}  # type: ignore[dict-item]

        return [PolledRenderer(render, lambda: False, seconds=0.0)]

    def page(self, session: str) -> ClientConnection:
        return connect(f"ws://127.0.0.1:{self.port}{ROUTE}?session={session}")

    def draw_another_page(self) -> None:
        """Draw a page several times, so that any other page has had its turn, too."""
        self.pages.open("another")
        with self.page("another") as page:
            for _ in range(6):
                drawn(page)

    def close(self) -> None:
        self._server.should_exit = True
        self._thread.join(SECONDS)


@pytest.fixture
def server() -> Iterator[Server]:
    with closing(Server()) as serving:
        yield serving


def drawn(page: ClientConnection) -> dict[str, Any]:
    """The next frame, which is acknowledged."""
    frame: dict[str, Any] = json.loads(page.recv(timeout=SECONDS))
    page.send('{"drawn": true}')
    return frame


def test_a_page_is_drawn_again_once_it_has_drawn(server: Server) -> None:
    server.pages.open("a")
    with server.page("a") as page:
        numbers = [int(drawn(page)["number"]) for _ in range(3)]
    assert numbers == sorted(set(numbers))


def test_a_page_that_sleeps_is_not_looked_at(server: Server) -> None:
    server.pages.open("a")
    with server.page("a") as page:
        page.recv(timeout=SECONDS)
        seen = server.looks["a"]
        server.draw_another_page()
        assert server.looks["a"] == seen
        page.send('{"drawn": true}')
        assert int(drawn(page)["number"]) == seen + 1, "no frame was sent in the meantime"


def test_an_unknown_page_is_told_so(server: Server) -> None:
    with server.page("unknown") as page, pytest.raises(ConnectionClosed) as closed:
        page.recv(timeout=SECONDS)
    assert closed.value.rcvd is not None and closed.value.rcvd.code == UNKNOWN_PAGE


def test_the_stream_ends_with_its_page_closed_or_killed(server: Server) -> None:
    for session, is_kept in (("closed", False), ("killed", True)):
        server.pages.open(session)
        with server.page(session) as page:
            drawn(page)
            if is_kept:
                page.socket.shutdown(socket.SHUT_RDWR)
        until(lambda known=session: not getattr(server.pages.find(known), "connections", 0))
        assert (server.pages.find(session) is not None) == is_kept
        seen = server.looks[session]
        server.draw_another_page()
        assert server.looks[session] == seen


def test_a_lost_page_comes_back_to_its_values(server: Server) -> None:
    state = server.pages.open("a")
    for _ in range(2):
        with server.page("a") as page:
            assert "number" in drawn(page)
            page.socket.shutdown(socket.SHUT_RDWR)
        until(lambda: not state.connections)
    assert server.pages.find("a") is state


@pytest.mark.parametrize("said", ["no json", b"bytes"])
def test_what_is_no_message_ends_the_connection(server: Server, said: str | bytes) -> None:
    server.pages.open("a")
    with server.page("a") as page:
        page.recv(timeout=SECONDS)
        page.send(said)
        with pytest.raises(ConnectionClosed) as closed:
            page.recv(timeout=SECONDS)
    assert closed.value.rcvd is not None and closed.value.rcvd.code == NOT_UNDERSTOOD


def test_a_page_that_cannot_be_drawn_is_disconnected_and_may_come_back(server: Server) -> None:
    state = server.pages.open("a")
    with server.page("a") as page:
        drawn(page)
        server.is_broken = True
        with pytest.raises(ConnectionClosed) as closed:
            while True:
                drawn(page)
    assert closed.value.rcvd is not None and closed.value.rcvd.code == FAILED
    until(lambda: not state.connections)
    server.is_broken = False
    with server.page("a") as page:
        assert "number" in drawn(page)


def test_what_the_person_does_is_heard(server: Server) -> None:
    server.pages.open("a")
    with server.page("a") as page:
        page.send('{"active": true}')
        until(lambda: server.activity == 1)


def test_each_page_has_its_own_values() -> None:
    count, names = PageValue(lambda: 3), PageValue(list[str])
    pages = Pages()
    first, second = pages.open("a"), pages.open("b")
    first.get(names).append("x")
    first.set(count, 4)
    assert (first.get(names), second.get(names)) == (["x"], [])
    assert (first.get(count), second.get(count)) == (4, 3)


def test_a_closed_page_is_forgotten_and_a_lost_one_is_kept() -> None:
    pages = Pages()
    for session, is_closed in (("closed", True), ("lost", False)):
        pages.open(session)
        page = pages.connect(session)
        assert page is not None
        pages.disconnect(page, is_closed)
    assert pages.find("closed") is None
    assert pages.find("lost") is not None


def test_a_page_that_is_back_before_its_loss_was_noticed_stays() -> None:
    pages = Pages()
    page = pages.open("a")
    pages.connect("a")
    pages.connect("a")
    pages.disconnect(page, is_closed=True)
    assert pages.find("a") is page


def test_lost_pages_go_when_there_are_many_and_open_ones_never() -> None:
    pages = Pages()
    for number in range(3 * KEPT):
        pages.open(str(number))
        if number < KEPT:
            pages.connect(str(number))
    assert len(pages) == 2 * KEPT
    assert all(pages.find(str(number)) for number in range(KEPT))
    assert pages.find(str(2 * KEPT - 1)) is None and pages.find(str(2 * KEPT)) is not None


def test_what_is_typed_is_told_to_the_page_in_its_order(server: Server) -> None:
    typed: list[object] = []
    here = server.pages.open("here")
    here.typed, here.left = typed.append, lambda *left: typed.append(left)
    left = {"typed": "ab", "left": "7", "opened": 2}
    with server.page("here") as page:
        drawn(page)
        for message in ({"typed": "a"}, {"typed": 5}, {"other": "x"}, ["typed"], left, {"typed": "abc"}):
            page.send(json.dumps(message))
        until(lambda: len(typed) == 3)
    assert typed == ["a", ("7", "ab", 2), "abc"]
