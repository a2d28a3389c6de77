"""The tuner: as many rows as pay, decided anew at every step.

A row costs time and promises tokens. Where a text has been written at R tokens a second, a second is worth R
tokens, and a step of n rows is worth

    tokens it may expect, 1 + reach 1 + ... + reach (n - 1),   minus   R * seconds(n)

The n with the largest worth gives the most tokens per second in the long run (Dinkelbach 1967: maximise a ratio of
sums by pricing its denominator at the ratio reached). With R = 500 and steps of 2.0, 2.2 and 3.0 ms for 1, 8 and
16 rows, seven guesses of 0.1 each are worth 0.7 tokens and cost 0.1: they pay. Eight more of 0.03 are worth 0.24
and cost 0.4: they do not. Where no guess pays, n is 1: plain decoding.

Seconds come from the curve measured at load and are refined by real steps.
"""

from bisect import bisect_left
from collections.abc import Sequence

from app.engine.lookahead.planning import DEEPEST, Plan
from app.engine.lookahead.window_share import WindowShare
from app.engine.step_times import StepTimes
from app.messages import Split

MEMORY = 0.97
"""What is left of an old step in the running speed."""
REFINE = 0.05
"""How fast a real step corrects the curve; one that took twice or half the time counts as just that."""
REDRAW = 16
"""Steps between two readings of the refined curve."""
SPARE = 8
"""Rows that are drafted beyond what paid lately, to see whether more would."""
LEAST_REACH = 0.002
"""Guesses less likely than this are not worth looking up, even where rows are free."""
WIDEST = 128


class Tuner:
    """A planner that maximises tokens per second on the curve of this model and machine."""

    ngram = 3

    def __init__(self, times: StepTimes, widths: Sequence[int], limit: int, share: WindowShare) -> None:
        """`widths` are the row counts that blocks are padded to, none where they are not."""
        self.share = share
        self._widths = list(times.widths)
        self._seconds = list(times.seconds)
        self._padded = list(widths)
        self._most = min(limit, WIDEST, times.widths[-1])  # memory may be too small for wider blocks
        self._costs = self._cost_by_rows()
        self._plain = self._costs[1]
        self._cheapest = self._cheapest_row()
        self._tokens, self._time = 1.0, self._plain
        self._steps = 0
        self._lately = SPARE

    def plan(self, window: int) -> Plan:
        """Twice what paid lately, of guesses that could pay were their rows as cheap as the cheapest."""
        rows = min(self._most - window, 2 * self._lately + SPARE)
        return Plan(max(rows, 1), DEEPEST, max(self._cheapest * self._speed, LEAST_REACH))

    def kept(self, reaches: Sequence[float], window: int) -> int:
        """The rows with the largest worth."""
        price, best, kept, expected = self._speed, -1e9, 1, 0.0
        for rows, reach in enumerate(reaches, start=1):
            expected += reach
            worth = expected - price * self._costs[min(rows + window, self._most)]
            if worth > best:
                best, kept = worth, rows
        self._lately = max(kept, self._lately - 1)
        return kept

    def price(self, reaches: Sequence[float], window: int) -> float:
        """What the time of the window's rows is worth in tokens."""
        rows = len(reaches)
        return self._speed * (self._costs[min(rows + window, self._most)] - self._costs[rows])

    def observe(self, rows: int, tokens: int, seconds: float) -> None:
        """Refine the curve at this width, and the speed."""
        width = min(bisect_left(self._widths, rows), len(self._widths) - 1)
        before = self._seconds[width]
        self._seconds[width] += REFINE * (min(max(seconds, before / 2), before * 2) - before)
        self._steps += 1
        if self._steps % REDRAW == 0:
            self._costs = self._cost_by_rows()
            self._cheapest = self._cheapest_row()
        self._tokens = MEMORY * self._tokens + tokens
        self._time = MEMORY * self._time + self._costs[min(rows, self._most)]

    def split(self, tree: int, window: int) -> Split:
        """The rows of both branches, and their cost against one row."""
        return Split(tree, window, self._costs[min(tree + window, self._most)] / self._plain)

    @property
    def _speed(self) -> float:
        return self._tokens / self._time

    def _cheapest_row(self) -> float:
        """Seconds of a row where rows are cheapest, seen from one row."""
        one = self._costs[1]
        slopes = [(self._costs[rows] - one) / (rows - 1) for rows in range(2, self._most + 1)]
        return max(min(slopes, default=0.0), 0.0)

    def _cost_by_rows(self) -> list[float]:
        times = StepTimes(tuple(self._widths), tuple(ascending(self._seconds)))
        padded = self._padded
        rows = [
            padded[bisect_left(padded, count)] if padded and count <= padded[-1] else count
            for count in range(self._most + 1)
        ]
        return [times.seconds_for(count) for count in rows]


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
