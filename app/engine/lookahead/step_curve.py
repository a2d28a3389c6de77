"""Seconds of a step by its rows, as the tuner sees them: measured at load, refined by every real step.

A drafted step costs more than its forward pass: looking up guesses, checking them and learning from them take time
on the host. So `plain`, a step without all that, is kept apart, and the curve begins with a guess of that time.
It belongs to the model's experience and goes on learning from reply to reply.
"""

from bisect import bisect_left
from collections.abc import Sequence

from app.engine.step_times import StepTimes, Widths, padded_rows

HOST, HOST_ROW = 2e-4, 8e-6
"""Seconds that the host is guessed to spend on a drafted step and on each of its rows, before any was seen."""
REFINE = 0.05
"""How fast a real step corrects the curve; one that took twice or half the time counts as just that."""
PLAIN_WEIGHT = 4
"""Plain steps are few where drafting pays: one counts as much as this many of others."""
REDRAW = 32
"""Steps between two readings of the refined curve."""
WIDEST = 128
BUCKETS = (1, 2, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)
"""Row counts that a free block may have: kernels are prepared for each count, so few are better than many."""


class StepCurve:
    """`seconds` [rows] up to the widest block; what is padded costs as much as the width that it is padded to."""

    def __init__(self, times: StepTimes, padded: Widths) -> None:
        self.widest = min(
            WIDEST, *times.widths[-1:], *padded[-1:]
        )  # memory may be too small for wider blocks
        self.buckets = (*(rows for rows in padded or BUCKETS if rows < self.widest), self.widest)
        self._widths = times.widths
        self._plain = times.seconds_for(padded_rows(1, padded))
        self._measured = [
            second + HOST + HOST_ROW * rows for rows, second in zip(times.widths, times.seconds, strict=True)
        ]
        self._padded = padded
        self._steps = 0
        self._draw()

    def refine(self, rows: int, seconds: float) -> None:
        """A real step of so many rows took this long."""
        fed = padded_rows(min(rows, self.widest), self._padded)
        width = min(bisect_left(self._widths, fed), len(self._widths) - 1)
        self._drift(self._measured[width], seconds)
        self._measured[width] = _nearer(self._measured[width], seconds)
        self._count()

    def refine_plain(self, seconds: float) -> None:
        """A plain step took this long."""
        for _ in range(PLAIN_WEIGHT):
            self._plain = _nearer(self._plain, seconds)
        self._count()

    def _count(self) -> None:
        self._steps += 1
        if self._steps % REDRAW == 0:
            self._draw()

    def _drift(self, expected: float, seconds: float) -> None:
        """A busy machine or a longer text slows every width alike: widths not seen lately must not look cheap."""
        ratio = _nearer(expected, seconds) / expected
        self._plain *= ratio
        self._measured = [second * ratio for second in self._measured]

    def _draw(self) -> None:
        times = StepTimes(self._widths, tuple(ascending(self._measured)))
        counts = range(1, self.widest + 1)
        self.seconds = [0.0, *(times.seconds_for(padded_rows(count, self._padded)) for count in counts)]
        one = self.seconds[1]
        self.plain = min(self._plain, one)  # nothing costs less than a plain step
        slopes = [(self.seconds[count] - one) / (count - 1) for count in counts[1:]]
        self.cheapest_row = min(slopes, default=0.0)


def _nearer(before: float, seconds: float) -> float:
    return before + REFINE * (min(max(seconds, before / 2), before * 2) - before)


def ascending(seconds: Sequence[float]) -> list[float]:
    """The closest times that never fall: neighbours out of order share their mean (pool adjacent violators).

    A step of more rows never takes less time; where it was measured so, that was noise."""
    pools: list[tuple[float, int]] = []
    for second in seconds:
        mean, count = second, 1
        while pools and pools[-1][0] > mean:
            before, size = pools.pop()
            mean, count = (before * size + mean * count) / (size + count), size + count
        pools.append((mean, count))
    return [mean for mean, count in pools for _ in range(count)]
