"""Timeouts for slow clients: connections that are slow on purpose, or whose other end is gone, are closed.

uvicorn closes idle keep-alive connections only. This protocol checks every connection periodically:

    no request header since the last check               closed
    less than a kilobyte of a body since the last check  closed, unless the app itself does not read more
    a response that is not read                          closed after some checks: a laptop may have been asleep

Streams without new data, and WebSockets, are left alone. Of the connections without a request only the newest
MOST_WAITING are kept, so that file descriptors are left for browsers, which send their request at once.
"""

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

LEAST_BYTES = 1_000
"""Bytes of a body that have to come between two checks."""
MOST_WAITING = 100
"""Connections without a request that are kept at the same time."""


class TimeoutProtocol(H11Protocol):
    """A connection that is checked every `check_seconds`. One that is not read is closed after `unread_checks`."""

    check_seconds = 10.0
    unread_checks = 12

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the checks."""
        super().connection_made(transport)
        self._since = self.loop.time()
        self._received = self._unread = 0
        self._seen = self._now()
        self._make_room()
        self.loop.call_later(self.check_seconds, self._check)

    def data_received(self, data: bytes) -> None:
        """Count what comes."""
        self._received += len(data)
        super().data_received(data)

    @property
    def is_waiting(self) -> bool:
        """Whether it is open, and there is no request yet, or none since the last response."""
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
        """The newest request, the bytes that came, and those that wait to be read."""
        return self.scope, self._received, self.transport.get_write_buffer_size()

    def _make_room(self) -> None:
        """Close the connection that has waited longest if there are too many."""
        waiting = [one for one in self.connections if isinstance(one, TimeoutProtocol) and one.is_waiting]
        if len(waiting) > MOST_WAITING:
            min(waiting, key=lambda one: one._since).transport.abort()
