"""Connections that are slow on purpose, or whose other end is gone, cost little and end.

uvicorn ends a connection that is kept alive and says nothing; this one looks at every connection now and then:

    no head of a request since the last look             it ends
    a body of which less than a kilobyte came since      it ends, unless the app itself does not take more
    a response that nobody reads                         it ends after some looks: a laptop may have been asleep

Streams that have nothing to say, and WebSockets, are left alone. Of the connections without a request only so many
are kept, the newest ones: a browser sends its request at once, so file descriptors are left for it.
"""

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

LEAST_BYTES = 1_000
"""Bytes of a body that have to come between two looks."""
MOST_WAITING = 100
"""Connections without a request that are kept at the same time."""


class WatchedProtocol(H11Protocol):
    """A connection that is looked at every `look_seconds`; one that nobody reads ends after `unread_looks`."""

    look_seconds = 10.0
    unread_looks = 12

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to look."""
        super().connection_made(transport)
        self._since = self.loop.time()
        self._received = self._unread = 0
        self._seen = self._now()
        self._make_room()
        self.loop.call_later(self.look_seconds, self._look)

    def data_received(self, data: bytes) -> None:
        """Count what comes."""
        self._received += len(data)
        super().data_received(data)

    @property
    def is_waiting(self) -> bool:
        """Whether it is open, and there is no request yet, or none since the last response."""
        return self.conn.their_state is h11.IDLE and not self.transport.is_closing()

    def _look(self) -> None:
        if self not in self.connections:  # it has ended, or is a WebSocket now
            return
        if self._is_stalled():
            self.transport.abort()
        else:
            self.loop.call_later(self.look_seconds, self._look)

    def _is_stalled(self) -> bool:
        scope, received, buffered = self._seen
        self._seen = self._now()
        is_same = self._seen[0] is scope
        is_unread = self.flow.write_paused and self._seen[2] == buffered
        self._unread = self._unread + 1 if is_unread else 0
        if self.conn.their_state is h11.SEND_BODY and not self.flow.read_paused:
            return is_same and self._seen[1] - received < LEAST_BYTES
        return (is_same and self.is_waiting) or self._unread >= self.unread_looks

    def _now(self) -> tuple[Any, int, int]:
        """The newest request, the bytes that came, and those that wait to be read."""
        return self.scope, self._received, self.transport.get_write_buffer_size()

    def _make_room(self) -> None:
        """End the connection that has waited longest where there are too many."""
        watched = [one for one in self.connections if isinstance(one, WatchedProtocol) and one.is_waiting]
        if len(watched) > MOST_WAITING:
            min(watched, key=lambda one: one._since).transport.abort()
