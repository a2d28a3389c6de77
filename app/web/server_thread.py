"""Runs a web server on a thread of its own, and closes the connections of slow clients, because uvicorn closes only
idle keep-alive connections. `TimeoutProtocol` checks every connection periodically:

    no complete request header since the last check      closed
    less than a kilobyte of a body since the last check  closed, unless the app itself does not read more
    a response that is not read                          closed after 12 checks (a laptop may sleep)

Streams without new data, and WebSockets, stay open. Only the newest MOST_WAITING connections without a request stay
open, so that file descriptors remain for browsers, which send their request at once.
"""

import asyncio
import logging
import socket
import threading
from contextlib import suppress
from time import monotonic, sleep
from typing import Any

import h11
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.protocol import State

START_SECONDS = 30.0
GRACE_SECONDS = 0.5
"""Seconds that `close` waits for answers that have begun."""
STOP_SECONDS = 0.5
TICK_SECONDS = 1.0
"""Seconds between two updates of the time in the headers of answers."""
LEAST_BYTES = 1_000
"""Minimum number of bytes of a body that must arrive between two checks."""
MOST_WAITING = 100
"""Maximum number of connections without a request that are kept open."""


class ServerThread:
    """Serves an application at a listening socket. `settings` are uvicorn's."""

    def __init__(self, app: ASGIApp, listener: socket.socket, **settings: Any) -> None:
        config = uvicorn.Config(
            app,
            http=TimeoutProtocol,
            log_config=None,
            log_level=logging.ERROR,
            access_log=False,
            server_header=False,
            workers=1,  # otherwise uvicorn reads WEB_CONCURRENCY
            proxy_headers=False,
            forwarded_allow_ips=[],  # otherwise uvicorn reads FORWARDED_ALLOW_IPS
            **settings,
        )
        self._server = _Server(config)
        self._thread = threading.Thread(target=self._server.run, args=([listener],), name="web", daemon=True)
        self._thread.start()
        deadline = monotonic() + START_SECONDS
        while not self._server.started:
            if not self.is_alive or monotonic() > deadline:
                raise RuntimeError("the server did not start")
            sleep(0.005)

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def close(self) -> None:
        """Stop the server. It is safe to call this twice."""
        # uvicorn would log an error for connections that are still open.
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
        self._server.end()
        self._thread.join(GRACE_SECONDS)
        self._server.force_exit = True  # only streams are left, and they end with the loop
        self._thread.join(STOP_SECONDS)


class _Server(uvicorn.Server):
    """A server that wakes once a second. Uvicorn's own server wakes ten times a second to check whether to end."""

    _ending: asyncio.Event | None = None

    async def main_loop(self) -> None:
        self._running_in, self._ending = asyncio.get_running_loop(), asyncio.Event()
        while not await self.on_tick(0):
            with suppress(TimeoutError):
                await asyncio.wait_for(self._ending.wait(), TICK_SECONDS)

    def end(self) -> None:
        """Wake the server so that it stops. Any thread may call this."""
        self.should_exit = True
        if self._ending is not None:
            with suppress(RuntimeError):  # its loop has ended
                self._running_in.call_soon_threadsafe(self._ending.set)


class TimeoutProtocol(H11Protocol):
    """A connection that is checked every `check_seconds`; an unread response is closed after `unread_checks`."""

    check_seconds = 10.0
    unread_checks = 12

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._since = self.loop.time()
        self._received = self._unread = 0
        self._seen = self._now()
        waiting = [one for one in self.connections if isinstance(one, TimeoutProtocol) and one.is_waiting]
        if len(waiting) > MOST_WAITING:  # close the oldest connection
            min(waiting, key=lambda one: one._since).transport.abort()
        self.loop.call_later(self.check_seconds, self._check)

    def data_received(self, data: bytes) -> None:
        self._received += len(data)
        super().data_received(data)

    @property
    def is_waiting(self) -> bool:
        """Whether the connection is open and waits for a request."""
        return self.conn.their_state is h11.IDLE and not self.transport.is_closing()

    def _check(self) -> None:
        if self not in self.connections:  # it was closed, or is a WebSocket now
            return
        if self._is_stalled():
            self.transport.abort()
        else:
            self.loop.call_later(self.check_seconds, self._check)

    def _is_stalled(self) -> bool:
        scope, received, buffered = self._seen
        self._seen = self._now()
        is_same = self._seen[0] is scope
        is_unread = self.flow.write_paused and self._seen[2] == buffered
        self._unread = self._unread + 1 if is_unread else 0
        if self.conn.their_state is h11.SEND_BODY and not self.flow.read_paused:
            return is_same and self._seen[1] - received < LEAST_BYTES
        return (is_same and self.is_waiting) or self._unread >= self.unread_checks

    def _now(self) -> tuple[Any, int, int]:
        """Return the newest request, the number of bytes received, and the number that the client has not read."""
        return self.scope, self._received, self.transport.get_write_buffer_size()


class WebSocketProtocol(WebSocketsSansIOProtocol):
    """A WebSocket that can be shut down while its client disconnects, when uvicorn 0.54 raises InvalidState."""

    def shutdown(self) -> None:
        """Close the connection, with a closing handshake if it is open."""
        if self.handshake_complete and self.conn.state is not State.OPEN:
            self.stop_keepalive()
            self.transport.close()
        else:
            super().shutdown()
