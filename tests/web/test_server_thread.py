"""A server on a thread: it answers at once and ends; slow connections end, and what is long on purpose does not."""

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
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


class Checked(TimeoutProtocol):
    """Is checked when the test says so, and not by time."""

    check_seconds = 3600.0
    unread_checks = 3


@dataclass(frozen=True)
class Served:
    """A server on a thread; `may_go_on` ends what takes long on purpose."""

    port: int
    server: uvicorn.Server
    may_go_on: threading.Event

    @property
    def connections(self) -> list[Checked]:
        return [one for one in self.server.server_state.connections if isinstance(one, Checked)]

    def check(self, times: int = 1) -> None:
        """Check all connections, as the server does by itself after a while."""
        for _ in range(times):
            for one in self.connections:
                done = threading.Event()
                one.loop.call_soon_threadsafe(one._check)
                one.loop.call_soon_threadsafe(done.set)
                assert done.wait(PATIENCE)

    def opened(self, said: bytes = b"") -> socket.socket:
        """Connect, and wait until the server has received this."""
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE)
        connection.sendall(said)
        port = connection.getsockname()[1]

        def is_received() -> bool:
            return any(
                (one.client and one.client[1], getattr(one, "_received", None)) == (port, len(said))
                for one in self.connections
            )

        until(is_received)
        return connection


@pytest.fixture
def served() -> Iterator[Served]:
    may_go_on = threading.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        """Answers at once; /stream and a WebSocket say a word when they may, /large more than buffers hold."""

        async def wait() -> None:
            while not may_go_on.is_set():
                await asyncio.sleep(0.01)

        if scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.accept"})
            await wait()
            await send({"type": "websocket.send", "text": "still here"})
            return
        while scope["method"] == "POST" and (await receive()).get("more_body"):
            pass
        await send({"type": "http.response.start", "status": 200, "headers": []})
        if scope["path"] == "/stream":
            await send({"type": "http.response.body", "body": b"first ", "more_body": True})
            await wait()
        body = b"x" * LARGE if scope["path"] == "/large" else b"answered"
        await send({"type": "http.response.body", "body": body})

    listener = socket.create_server(("127.0.0.1", 0), backlog=128)
    config = uvicorn.Config(app, http=Checked, ws="auto", lifespan="off", log_config=None)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
    thread.start()
    until(lambda: server.started)
    yield Served(int(listener.getsockname()[1]), server, may_go_on)
    may_go_on.set()
    server.should_exit = server.force_exit = True
    thread.join()


def is_ended(connection: socket.socket) -> bool:
    """Whether the server has ended it; waits for that."""
    try:
        return connection.recv(1) == b""
    except ConnectionError:
        return True


POST = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nno"


@pytest.mark.parametrize(("said", "checks"), [(b"", 1), (b"G", 1), (HEAD, 1), (POST, 2)])
def test_a_request_that_does_not_come_whole_between_two_checks_ends(
    served: Served, said: bytes, checks: int
) -> None:
    with closing(served.opened(said)) as connection:
        served.check(checks)
        assert is_ended(connection)


def test_a_response_that_nobody_reads_ends(served: Served) -> None:
    with closing(served.opened(b"GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n")) as connection:
        until(lambda: served.connections[0].flow.write_paused)
        served.check(Checked.unread_checks + 1)
        received = 0
        with pytest.raises(ConnectionError):
            while part := connection.recv(2**20):
                received += len(part)
            raise ConnectionError
        assert received < LARGE


def test_what_is_long_on_purpose_is_left_alone(served: Served) -> None:
    client = pytest.importorskip("websockets.sync.client", reason="uvicorn serves WebSockets by this package")
    with client.connect(f"ws://127.0.0.1:{served.port}/") as page:
        with closing(urlopen(f"http://127.0.0.1:{served.port}/stream", timeout=PATIENCE)) as stream:
            assert stream.read(6) == b"first "
            served.check(5)
            served.may_go_on.set()
            assert stream.read() == b"answered"
        assert page.recv(timeout=PATIENCE) == "still here"


def test_a_connection_that_is_used_again_and_again_is_left_alone(served: Served) -> None:
    with closing(HTTPConnection("127.0.0.1", served.port, timeout=PATIENCE)) as connection:
        connection.connect()
        used = connection.sock
        for _ in range(8):
            connection.request("GET", "/")
            assert connection.getresponse().read() == b"answered"
            assert connection.sock is used
            served.check()


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="only Linux tells of open files there")
def test_a_flood_of_connections_takes_few_descriptors_and_the_page_answers_meanwhile(served: Served) -> None:
    def files() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    before = files()
    with ExitStack() as stack:
        for number in range(SLOW):
            said = b"" if number % 2 else HEAD
            one = stack.enter_context(closing(socket.create_connection(("127.0.0.1", served.port), PATIENCE)))
            one.sendall(said)
        assert urlopen(f"http://127.0.0.1:{served.port}/", timeout=PATIENCE).read() == b"answered"
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
    async def run() -> None:
        config = uvicorn.Config(cast(Any, accepting), ws=WebSocketProtocol, log_config=None)
        config.load()
        protocol, wire = WebSocketProtocol(config, ServerState(), {}), Wire()
        protocol.connection_made(wire)
        protocol.data_received(HANDSHAKE)
        while b"101 Switching" not in wire.written:
            await asyncio.sleep(0)
        if is_hanging_up:
            goodbye = Frame(Opcode.CLOSE, Close(1001, "").serialize()).serialize(mask=True)
            protocol.conn.receive_data(goodbye)
        protocol.shutdown()
        while not wire.is_closed:
            await asyncio.sleep(0)

    asyncio.run(asyncio.wait_for(run(), PATIENCE))
