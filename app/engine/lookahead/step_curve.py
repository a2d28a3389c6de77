"""Seconds of a step by its rows, as the tuner sees them: measured at load, refined by every real step.

A real step costs more than its forward pass: drafting, verification and text are in its time as well. So the curve
belongs to the model's experience and goes on learning from reply to reply.
"""

from bisect import bisect_left
from collections.abc import Sequence

from app.engine.step_times import StepTimes, Widths, padded_rows

REFINE = 0.05
"""How fast a real step corrects the curve; one that took twice or half the time counts as just that."""
REDRAW = 16
"""Steps between two readings of the refined curve."""
WIDEST = 128


class StepCurve:
    """`seconds` [rows] up to the widest block; what is padded costs as much as the width that it is padded to."""

    def __init__(self, times: StepTimes, padded: Widths) -> None:
        self.widest = min(
            WIDEST, *times.widths[-1:], *padded[-1:]
        )  # memory may be too small for wider blocks
        self._widths = times.widths
        self._measured = list(times.seconds)
        self._padded = padded
        self._steps = 0
        self._draw()

    def refine(self, rows: int, seconds: float) -> None:
        """A real step of so many rows took this long."""
        width = min(bisect_left(self._widths, rows), len(self._widths) - 1)
        before = self._measured[width]
        self._measured[width] += REFINE * (min(max(seconds, before / 2), before * 2) - before)
        self._steps += 1
        if self._steps % REDRAW == 0:
            self._draw()

    def _draw(self) -> None:
        times = StepTimes(self._widths, tuple(ascending(self._measured)))
        counts = range(1, self.widest + 1)
        self.seconds = [0.0, *(times.seconds_for(padded_rows(count, self._padded)) for count in counts)]
        one = self.seconds[1]
        slopes = [(self.seconds[count] - one) / (count - 1) for count in counts[1:]]
        self.cheapest_row = min(slopes, default=0.0)


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
