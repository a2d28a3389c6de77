"""How many rows a step has: the decoder can verify any tree, and a planner decides how large it is.

Three planners know three kinds of bounds: the authors' fixed W, N and G; a row budget that holds on average; and
the tuner, which looks for the most tokens per second on this machine.

To the tuner a row costs time and may bring tokens. If a text has been written at R tokens a second, a second is
worth R tokens, and a step of n rows is worth

    its expected tokens, 1 + reach 1 + ... + reach (n - 1),   minus   R * seconds(n)

The n with the largest worth gives the most tokens per second in the long run (Dinkelbach 1967: maximise a ratio of
sums by pricing its denominator at the ratio reached). With R = 500 and steps of 2.0, 2.2 and 3.0 ms for 1, 8 and
16 rows, seven guesses of 0.1 each are worth 0.7 tokens and cost 0.1: they pay. Eight more of 0.03 are worth 0.24
and cost 0.4: they do not. If no guess pays, n is 1: plain decoding.

A drafted step costs a little even if no guess of it is fed. If none was for some steps, so many plain steps follow
each draft that such drafts cost a small share of the time (LOSS). A curve that was measured on a busy machine may
be wrong about what pays, so a few small trees are fed although they seem not to pay, at first and after a long time
without any.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from app.engine.block.block import MAX_DEPTH
from app.engine.lookahead.draft_model_budget import DraftModelBudget
from app.engine.lookahead.jacobi_window import JacobiWindow, WindowSizer
from app.engine.lookahead.step_curve import StepCurve
from app.values.messages import Decoding, Split
from app.values.step_rows import tree_rows

MIN_REACH = 1e-4
"""Guesses that the model reaches less often are left out, even if rows are to be spent."""
MIN_ROWS_FOR_WINDOW = 16
"""Rows below which a window would starve the tree."""
MEMORY = 0.97
"""What is left of an old step in the running speed."""
SPARE = 16
"""Rows that are drafted beyond twice what paid lately, to see whether more would pay."""
FLOOR = 0.25
"""Guesses are looked up if they are worth this part of the cheapest row: together they may fill a bucket."""
CHECK, CLEAR = 48, 1.3
"""After so many drafted steps comes a plain one, to see what it costs by now, unless drafting is so much faster."""
PATIENCE = 4
"""Drafted steps in a row that did not pay, before the first plain ones."""
LOSS = 0.03
"""The share of the time that drafts which do not pay may cost."""
TRIAL = 8
"""Rows that are fed although they do not pay, if the curve was not proven by real steps."""
TUNED_MIN_REACH = 0.002
"""Guesses less likely than this are not worth looking up by the tuner, even if rows are free."""


@dataclass(frozen=True, slots=True)
class DraftPlan:
    """What a step may draft: a tree of so many rows and guesses in a line, each at least as likely as `min_reach`.

    `is_plain`: the step drafts nothing, feeds no window, and is not verified."""

    rows: int
    depth: int
    min_reach: float
    is_plain: bool = False


PLAIN_STEP = DraftPlan(1, 0, 1.0, is_plain=True)


@dataclass(frozen=True, slots=True)
class DraftedStep:
    """What a step with a draft tree fed and committed. `reaches` are those of the tree's rows, best first."""

    reaches: Sequence[float]
    window: JacobiWindow
    rows: int  # of the block, and pending ones
    tokens: int  # committed
    from_window: int  # of these tokens
    seconds: float


class DraftPlanner:
    """Decides before each step how much to draft, after drafting how much to feed, and learns from the step.

    This base ignores time: the whole drafted tree is fed, and no step is plain."""

    ngram: int = 3
    columns: int
    """How many columns the window of the reply begins with."""

    def __init__(self, sizer: WindowSizer) -> None:
        self.sizer = sizer

    def plan(self, window_rows: int) -> DraftPlan:
        """Plan what the next step may draft beside so many rows of a window, or pending ones."""
        raise NotImplementedError

    def kept(self, reaches: Sequence[float], window_rows: int) -> int:
        """Decide how many rows of a tree, best first with these reaches, the step should feed."""
        del window_rows
        return len(reaches)

    def observe(self, step: DraftedStep) -> Split:
        """Learn from a step; may narrow its window. Returns how the step spent its rows."""
        raise NotImplementedError

    def observe_plain(self, seconds: float, rows: int = 1) -> Split:
        """Learn from a plain step; with pending rows it fed more than one."""
        del seconds, rows
        return Split()


class FixedSizesPlanner(DraftPlanner):
    """W, N and G as the person chose them: the tree has the rows of G guesses of N - 1 tokens."""

    def __init__(self, decoding: Decoding) -> None:
        super().__init__(WindowSizer(decoding.window))
        self.columns = self.sizer.begin_reply()
        self.ngram = decoding.ngram
        self._plan = DraftPlan(tree_rows(decoding.guesses, decoding.ngram), decoding.ngram - 1, MIN_REACH)

    def plan(self, window_rows: int) -> DraftPlan:
        del window_rows
        return self._plan

    def observe(self, step: DraftedStep) -> Split:
        return Split(len(step.reaches), step.window.size)


class RowBudgetPlanner(DraftPlanner):
    """A number of rows that each step has on average over the reply.

    A step that finds little to guess leaves its rows to later steps; none gets more than twice the budget."""

    def __init__(self, rows: int, sizer: WindowSizer) -> None:
        super().__init__(sizer if rows >= MIN_ROWS_FOR_WINDOW else WindowSizer(0))
        # At most so many columns that two thirds of the budget are the tree's.
        self.columns = min(self.sizer.begin_reply(), rows // (3 * (self.ngram - 1)))
        self._rows = rows
        self._left = 0

    def plan(self, window_rows: int) -> DraftPlan:
        """Plan the budget and a quarter of what is left over, at most twice the budget."""
        rows = min(self._rows + self._left // 4, 2 * self._rows)
        return DraftPlan(max(rows - window_rows, 1), MAX_DEPTH, MIN_REACH)

    def observe(self, step: DraftedStep) -> Split:
        """Count what is left over. A window row takes the place of a row like the tree's last."""
        split = Split(len(step.reaches), step.window.size)
        self.sizer.settle(step.window, step.window.size * step.reaches[-1], step.from_window)
        self._left += self._rows - step.rows
        return split


class Tuner(DraftPlanner):
    """A planner that maximises tokens per second on the curve of this model and machine."""

    def __init__(
        self, curve: StepCurve, sizer: WindowSizer, budget: DraftModelBudget | None = None, context: int = 0
    ) -> None:
        """`budget` is the draft model's, if there is one; `context` tokens stand before the reply."""
        super().__init__(sizer)
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
        """Plan plain steps if nothing pays; else more rows than paid lately, of guesses that could pay."""
        if self._plain_left is None:
            curve = self._curve
            if self._failures >= PATIENCE:
                self._plain_left = round((curve.seconds[1] / curve.plain - 1) / LOSS)
            else:
                is_due = self._steps_since_plain >= CHECK and self._speed * curve.plain < CLEAR
                self._plain_left = int(is_due)
        if self._plain_left:
            self._plain_left -= 1
            return PLAIN_STEP
        self._plain_left = None
        if self._budget:
            self._budget.price(self._speed)
        rows = min(self._curve.largest - window_rows, 2 * self._recent_rows + SPARE)
        price = 0.0 if self._curve.is_unproven else FLOOR * self._curve.cheapest_row * self._speed
        return DraftPlan(max(rows, 1), MAX_DEPTH, max(price, TUNED_MIN_REACH))

    def kept(self, reaches: Sequence[float], window_rows: int) -> int:
        """Keep the rows with the largest worth; some more now and then, to see whether the curve holds."""
        kept = self._best(reaches, window_rows)
        self._recent_rows = max(kept, self._recent_rows - 1)
        self._failures = 0 if kept > 1 else self._failures + 1
        if kept == 1 and self._curve.is_unproven:
            return min(TRIAL, len(reaches))
        return kept

    def _best(self, reaches: Sequence[float], window: int) -> int:
        """Find how many rows have the largest worth, the window's included; one if a plain step is worth more."""
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

    def observe_plain(self, seconds: float, rows: int = 1) -> Split:
        """Refine the cost of a plain step, unless pending rows were fed with it, and the speed."""
        self._steps_since_plain = 0
        if self._budget:
            self._budget.settle(seconds)
        if rows == 1:
            self._curve.refine_plain(seconds)
        self._tokens = MEMORY * self._tokens + 1
        self._time = MEMORY * self._time + (self._curve.plain if rows == 1 else self._drafted_seconds(rows))
        self._move_on(1)
        return Split(1, 0, self._drafted_seconds(rows) / self._curve.plain)

    def observe(self, step: DraftedStep) -> Split:
        """Refine the curve at this bucket, and the speed; settle what the window cost and earned."""
        tree, window = len(step.reaches), step.window.size
        split = Split(tree, window, self._drafted_seconds(step.rows) / self._curve.plain)
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
        """What the window's time is worth in tokens, at least what the tree would earn with its rows."""
        rows, seconds = len(reaches), self._curve.seconds
        time = self._drafted_seconds(rows + window) - seconds[rows]
        return max(self._speed * time, window * reaches[-1])

    @property
    def _speed(self) -> float:
        """Tokens a second; at least those of plain steps, which could be taken at any time."""
        return max(self._tokens / self._time, 1 / self._curve.plain)


class ChainTuner(Tuner):
    """A tuner for models that take only chains: if a chain is wrong somewhere, its accepted rows are fed again.

    So each chain is charged with the rows that the next step will feed once more."""

    def _best(self, reaches: Sequence[float], pending: int) -> int:
        """Find how many rows have the largest worth, the pending ones included."""
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
