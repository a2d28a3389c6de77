"""The tuner: as many rows as pay, decided anew at every step.

A row costs time and promises tokens. Where a text has been written at R tokens a second, a second is worth R
tokens, and a step of n rows is worth

    tokens it may expect, 1 + reach 1 + ... + reach (n - 1),   minus   R * seconds(n)

The n with the largest worth gives the most tokens per second in the long run (Dinkelbach 1967: maximise a ratio of
sums by pricing its denominator at the ratio reached). With R = 500 and steps of 2.0, 2.2 and 3.0 ms for 1, 8 and
16 rows, seven guesses of 0.1 each are worth 0.7 tokens and cost 0.1: they pay. Eight more of 0.03 are worth 0.24
and cost 0.4: they do not. Where no guess pays, n is 1: plain decoding.

Where nothing paid for some steps the tuner rests: plain steps, which cost nothing but themselves, and a new look
after twice as many each time. A curve that was measured on a busy machine may be wrong about what pays: a few small
trees are fed against its word, at first and after a long time without any.
"""

from collections.abc import Sequence
from itertools import accumulate

from app.engine.lookahead.patience import Patience
from app.engine.lookahead.planning import DEEPEST, Plan
from app.engine.lookahead.step_curve import StepCurve
from app.engine.lookahead.window_share import WindowShare
from app.messages import Split

MEMORY = 0.97
"""What is left of an old step in the running speed."""
SPARE = 8
"""Rows that are drafted beyond what paid lately, to see whether more would."""
CHECK, CLEAR = 48, 1.3
"""After so many drafted steps comes a plain one, to see what it costs by now, unless drafting is so much faster."""
TRIAL = 8
"""Rows that are fed although they do not pay, where the curve was not proven by real steps."""
LEAST_REACH = 0.002
"""Guesses less likely than this are not worth looking up, even where rows are free."""


class Tuner:
    """A planner that maximises tokens per second on the curve of this model and machine."""

    ngram = 3

    def __init__(self, curve: StepCurve, share: WindowShare, patience: Patience) -> None:
        self.share = share
        self._curve = curve
        self._tokens, self._time = 1.0, curve.plain
        self._lately = SPARE
        self._unseen = 0  # drafted steps since a plain one
        self._patience = patience
        patience.begin_reply()

    def columns(self) -> int:
        """As many as earned their rows so far."""
        return self.share.open()

    def plan(self, window: int) -> Plan:
        """Some more than paid lately, of guesses that could pay were their rows as cheap as the cheapest."""
        rows = min(self._curve.widest - window, self._lately + SPARE)
        price = 0.0 if self._curve.is_unproven else self._curve.cheapest_row * self._speed
        return Plan(max(rows, 1), DEEPEST, max(price, LEAST_REACH))

    def kept(self, reaches: Sequence[float], window: int) -> int:
        """The rows with the largest worth; some more now and then, to see whether the curve holds."""
        kept = self._best(reaches, window)
        self._lately = max(kept, self._lately - 1)
        self._patience.look(did_pay=kept > 1)
        if kept == 1 and self._curve.is_unproven:
            return min(TRIAL, len(reaches))
        return kept

    def _best(self, reaches: Sequence[float], window: int) -> int:
        """The rows with the largest worth, counted with the window's; one where a plain step is worth more."""
        price, seconds = self._speed, self._curve.seconds
        best, kept = 1 - price * self._curve.plain, 1
        expected = [0.0, *accumulate(reaches)]
        for width in self._curve.buckets:
            rows = min(width - window, len(reaches))
            if rows < 1:
                continue
            worth = expected[rows] - price * seconds[rows + window]
            if worth > best:
                best, kept = worth, rows
        return kept

    def rest(self) -> int:
        """How many plain steps to take now."""
        rest = self._patience.rest()
        if rest == 0 and self._unseen >= CHECK and self._speed * self._curve.plain < CLEAR:
            return 1
        return rest

    def observe_rest(self, seconds: float) -> None:
        """A plain step took this long."""
        self._unseen = 0
        self._curve.refine_plain(seconds)
        self._tokens = MEMORY * self._tokens + 1
        self._time = MEMORY * self._time + self._curve.plain

    def price(self, reaches: Sequence[float], window: int) -> float:
        """What the window's time is worth in tokens, and at least what the tree would make of its rows."""
        rows, seconds = len(reaches), self._curve.seconds
        time = seconds[min(rows + window, self._curve.widest)] - seconds[rows]
        return max(self._speed * time, window * reaches[-1])

    def observe(self, rows: int, tokens: int, seconds: float) -> None:
        """Refine the curve at this width, and the speed."""
        self._unseen += 1
        self._curve.refine(rows, seconds)
        self._tokens = MEMORY * self._tokens + tokens
        self._time = MEMORY * self._time + self._curve.seconds[min(rows, self._curve.widest)]

    def split(self, tree: int, window: int) -> Split:
        """The rows of both branches, and their cost against one row."""
        return Split(
            tree, window, self._curve.seconds[min(tree + window, self._curve.widest)] / self._curve.plain
        )

    @property
    def _speed(self) -> float:
        return self._tokens / self._time
