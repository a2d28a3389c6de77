"""The tuner: as many rows as pay, decided at every step.

A row costs time and may bring tokens. Where a text has been written at R tokens a second, a second is worth R
tokens, and a step of n rows is worth

    its expected tokens, 1 + reach 1 + ... + reach (n - 1),   minus   R * seconds(n)

The n with the largest worth gives the most tokens per second in the long run (Dinkelbach 1967: maximise a ratio of
sums by pricing its denominator at the ratio reached). With R = 500 and steps of 2.0, 2.2 and 3.0 ms for 1, 8 and
16 rows, seven guesses of 0.1 each are worth 0.7 tokens and cost 0.1: they pay. Eight more of 0.03 are worth 0.24
and cost 0.4: they do not. Where no guess pays, n is 1: plain decoding.

A drafted step costs a little even if no guess of it is fed. Where none was for some steps, so many plain steps come
behind each draft that such drafts cost a small share of the time (LOSS). A curve that was measured on a busy
machine may be wrong about what pays, so a few small trees are fed although they seem not to pay, at first and after
a long time without any.
"""

from collections.abc import Sequence
from itertools import accumulate

from app.engine.block.block import MAX_DEPTH
from app.engine.lookahead.draft_model_budget import DraftModelBudget
from app.engine.lookahead.jacobi_window import WindowSizer
from app.engine.lookahead.planning import PLAIN_STEP, DraftedStep, DraftPlan
from app.engine.lookahead.step_curve import StepCurve
from app.values.messages import Split

MEMORY = 0.97
"""What is left of an old step in the running speed."""
SPARE = 16
"""Rows that are drafted beyond twice what paid lately, to see whether more would."""
FLOOR = 0.25
"""Guesses are looked up down to this part of what the cheapest row costs: together they may fill a bucket."""
CHECK, CLEAR = 48, 1.3
"""After so many drafted steps comes a plain one, to see what it costs by now, unless drafting is so much faster."""
PATIENCE = 4
"""Drafted steps in a row that did not pay, before the first plain ones."""
LOSS = 0.03
"""The share of the time that drafts which do not pay may cost."""
TRIAL = 8
"""Rows that are fed although they do not pay, where the curve was not proven by real steps."""
MIN_REACH = 0.002
"""Guesses less likely than this are not worth looking up, even where rows are free."""


class Tuner:
    """A planner that maximises tokens per second on the curve of this model and machine."""

    ngram = 3

    def __init__(
        self, curve: StepCurve, sizer: WindowSizer, budget: DraftModelBudget | None = None, context: int = 0
    ) -> None:
        """`budget` is the draft model's, if there is one; `context` tokens stand before the reply."""
        self.sizer = sizer
        self._budget = budget
        self.columns = sizer.begin_reply()  # as many as earned their rows so far
        self._curve, self._context = curve, context
        curve.move_to(context)
        self._tokens, self._time = 1.0, curve.plain
        self._recent_rows = SPARE  # that paid
        self._steps_since_plain = 0
        self._plain_left: int | None = None  # plain steps before the next draft; None: not decided yet
        self._failures = 0  # drafted steps in a row that did not pay

    def plan(self, window_rows: int) -> DraftPlan:
        """Plain steps where nothing pays; else more rows than paid lately, of guesses that could pay."""
        if self._plain_left is None:
            self._plain_left = self._plain_steps()
        if self._plain_left:
            self._plain_left -= 1
            return PLAIN_STEP
        self._plain_left = None
        if self._budget:
            self._budget.price(self._speed)
        rows = min(self._curve.largest - window_rows, 2 * self._recent_rows + SPARE)
        price = 0.0 if self._curve.is_unproven else FLOOR * self._curve.cheapest_row * self._speed
        return DraftPlan(max(rows, 1), MAX_DEPTH, max(price, MIN_REACH))

    def kept(self, reaches: Sequence[float], window_rows: int) -> int:
        """The rows with the largest worth; some more now and then, to see whether the curve holds."""
        kept = self._best(reaches, window_rows)
        self._recent_rows = max(kept, self._recent_rows - 1)
        self._failures = 0 if kept > 1 else self._failures + 1
        if kept == 1 and self._curve.is_unproven:
            return min(TRIAL, len(reaches))
        return kept

    def _best(self, reaches: Sequence[float], window: int) -> int:
        """The rows with the largest worth, counted with the window's; one where a plain step is worth more."""
        price, seconds = self._speed, self._curve.seconds
        best, kept = 1 - price * self._curve.plain, 1
        expected = [0.0, *accumulate(reaches)]
        for bucket in self._curve.buckets:
            rows = min(bucket - window, len(reaches))
            if rows < 1:
                continue
            worth = expected[rows] - price * seconds[rows + window]
            if worth > best:
                best, kept = worth, rows
        return kept

    def _plain_steps(self) -> int:
        """How many plain steps to take now."""
        curve = self._curve
        if self._failures >= PATIENCE:
            return round((curve.seconds[1] / curve.plain - 1) / LOSS)
        return int(self._steps_since_plain >= CHECK and self._speed * curve.plain < CLEAR)

    def observe_plain(self, seconds: float, rows: int = 1) -> Split:
        """Refine the cost of a plain step, and the speed. With pending rows it says nothing about plain ones."""
        self._steps_since_plain = 0
        if self._budget:
            self._budget.settle(seconds)
        if rows == 1:
            self._curve.refine_plain(seconds)
        self._tokens = MEMORY * self._tokens + 1
        self._time = MEMORY * self._time + (self._curve.plain if rows == 1 else self._drafted_seconds(rows))
        self._move_on(1)
        return self._split(1, 0, rows)

    def observe(self, step: DraftedStep) -> Split:
        """Refine the curve at this bucket, and the speed; settle what the window cost and earned."""
        tree, window = len(step.reaches), step.window.size
        split = self._split(tree, window, step.rows)
        self.sizer.settle(step.window, self._window_price(step.reaches, window), step.from_window)
        self._steps_since_plain += 1
        asked = self._budget.settle(step.seconds) if self._budget else 0.0
        self._curve.refine(step.rows, step.seconds - asked)
        self._tokens = MEMORY * self._tokens + step.tokens
        self._time = MEMORY * self._time + self._drafted_seconds(step.rows) + asked
        self._move_on(step.tokens)
        return split

    def _move_on(self, tokens: int) -> None:
        self._context += tokens
        self._curve.move_to(self._context)

    def _drafted_seconds(self, rows: int) -> float:
        return self._curve.seconds[min(rows, self._curve.largest)]

    def _window_price(self, reaches: Sequence[float], window: int) -> float:
        """What the window's time is worth in tokens, and at least what the tree would make of its rows."""
        rows, seconds = len(reaches), self._curve.seconds
        time = self._drafted_seconds(rows + window) - seconds[rows]
        return max(self._speed * time, window * reaches[-1])

    def _split(self, tree: int, window: int, rows: int) -> Split:
        """The rows of both branches, and the cost of the whole step against one row."""
        return Split(tree, window, self._drafted_seconds(rows) / self._curve.plain)

    @property
    def _speed(self) -> float:
        """Tokens a second; at least those of plain steps, which could be taken at any time."""
        return max(self._tokens / self._time, 1 / self._curve.plain)


class ChainTuner(Tuner):
    """For models that take chains alone: of a chain that is not right to its end, what was accepted is fed again.

    So each chain is charged with the rows that the next step will feed once more, if its end is not reached."""

    def _best(self, reaches: Sequence[float], pending: int) -> int:
        """The rows with the largest worth, counted with the pending ones."""
        price, most = self._speed, min(len(reaches), self._curve.largest - pending)
        tokens = [0.0, *accumulate(reaches)]
        worths = [0.0] * (max(most, 1) + 1)
        for rows in range(1, len(worths)):
            again = self._seconds(round(pending + tokens[rows]) + 1) - self._curve.plain
            seconds = self._seconds(rows + pending) + (1 - reaches[rows - 1]) * again
            worths[rows] = tokens[rows] - price * seconds
        return max(range(1, len(worths)), key=worths.__getitem__)

    def _seconds(self, rows: int) -> float:
        return self._curve.plain if rows == 1 else self._drafted_seconds(rows)
