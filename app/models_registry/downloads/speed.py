"""How fast bytes come, over the last seconds: not since the start, which a pause would spoil."""

from collections import deque

SPAN = 5.0
"""Seconds that are looked at."""
QUIET = 5.0
"""Seconds without a byte after which that is worth a word."""


class Meter:
    """Told the bytes that are here at which time; answers with bytes per second.

    A meter that hears (0 s, 0), (1 s, 10), (2 s, 40) reads 20 bytes per second."""

    def __init__(self, now: float, done: int) -> None:
        self._marks = deque([(now, done)])
        self._moved = now

    def tell(self, now: float, done: int) -> None:
        """So many bytes are here."""
        if done != self._marks[-1][1]:
            self._moved = now
        if done < self._marks[-1][1]:  # a file began anew
            self._marks.clear()
        self._marks.append((now, done))
        while len(self._marks) > 2 and self._marks[1][0] <= now - SPAN:
            self._marks.popleft()

    def speed(self, now: float) -> float:
        """Bytes per second; falls to 0 while nothing comes."""
        begin, before = self._marks[0]
        span = now - begin
        return (self._marks[-1][1] - before) / span if span > 0 and self.quiet(now) < QUIET else 0.0

    def quiet(self, now: float) -> float:
        """Seconds since the last byte."""
        return now - self._moved
