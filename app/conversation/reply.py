"""A reply is an append-only log of events with any number of readers, each from any point.

The worker appends; the page, a second tab, a recorder and a page reopened later all read the same
log, so none of them is a special case:

    log:      Prefilling(9, 9)  Piece("Hel")  Piece("lo")  Finished
    reader A:      0 ------------- 1 ------------ 2 ----------- 3      (from the start)
    reader B:                                     2 ----------- 3      (came late, start=2)

Stopping sets a flag that the decoder checks before each step. Readers that leave stop nothing.

The events stay until the reply is forgotten, but only the newest TRACED_STEPS steps keep their traces: a trace is
much larger than a step's text, and the X-ray goes back no further.
"""

import threading
from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from time import monotonic

from app.values.messages import Event, Failed, Finished, Piece
from app.values.trace import NO_TRACE, TRACED_STEPS


class Reply:
    """The event log of one reply. Thread-safe: one writer, many readers."""

    def __init__(self) -> None:
        self._events: list[Event] = []
        self._traced: deque[int] = deque()
        self._changed = threading.Condition()
        self._stop = threading.Event()

    def append(self, event: Event) -> None:
        """Adds an event and wakes every reader. An event after the end is a bug: RuntimeError."""
        with self._changed:
            if self._has_ended():
                raise RuntimeError(f"reply has ended, got {event!r}")
            self._events.append(event)
            self._drop_old_trace(event)
            self._changed.notify_all()

    def stop(self) -> None:
        """Asks the decoder to end the reply after its current step. May be called at any time, and repeatedly."""
        self._stop.set()

    @property
    def is_stopping(self) -> bool:
        """Whether somebody asked the reply to stop."""
        return self._stop.is_set()

    @property
    def is_done(self) -> bool:
        """Whether the reply has finished or failed."""
        with self._changed:
            return self._has_ended()

    def events(self, start: int = 0) -> Iterator[Event]:
        """Yields every event from number `start`, waits for new ones, and ends after Finished or Failed."""
        ended = False
        while not ended:
            batch = self.wait(start, timeout=None)
            yield from batch
            start += len(batch)
            ended = any(isinstance(event, Finished | Failed) for event in batch) or not batch

    def wait(self, start: int, timeout: float | None) -> list[Event]:
        """The events from number `start`; waits at most `timeout` seconds for one. [] if there is none."""
        deadline = None if timeout is None else monotonic() + timeout
        with self._changed:
            while len(self._events) <= start and not self._has_ended():
                left = None if deadline is None else deadline - monotonic()
                if not self._changed.wait(left):
                    break
            return self._events[start:]

    def _drop_old_trace(self, event: Event) -> None:
        if not isinstance(event, Piece) or event.trace == NO_TRACE:
            return
        self._traced.append(len(self._events) - 1)
        if len(self._traced) > TRACED_STEPS:
            oldest = self._traced.popleft()
            piece = self._events[oldest]
            if isinstance(piece, Piece):
                self._events[oldest] = replace(piece, trace=NO_TRACE)

    def _has_ended(self) -> bool:
        return bool(self._events) and isinstance(self._events[-1], Finished | Failed)
