"""Decides how many rows each step feeds. The decoder can verify any tree; a planner decides how large it is.

There are three planners: one with the authors' fixed sizes W, N and G; one with a row budget that holds on
average; and the tuner, which looks for the most tokens per second on this machine.

To the tuner a row costs time and may bring tokens. If R tokens a second have been written recently, a second
is worth R tokens, and a step of n rows is worth

    its expected tokens, 1 + reach 1 + ... + reach (n - 1),   minus   R * seconds(n)

The n with the largest worth gives the most tokens per second in the long run (Dinkelbach 1967: maximise a
ratio of sums by pricing its denominator at the ratio reached so far). With R = 500 and steps of 2.0, 2.2 and
3.0 ms for 1, 8 and 16 rows, seven guesses of reach 0.1 bring 0.7 tokens and cost 0.1: they pay. Eight further
guesses of reach 0.03 bring 0.24 and cost 0.4: they do not pay. If no guess pays, n is 1: plain decoding.

A drafted step costs a little even if none of its guesses is fed. When several drafts in a row did not pay,
each further draft is followed by plain steps, so that drafts cost only a small share of the time (LOSS).
A curve that was measured on a busy machine may be wrong. So a few small trees are fed although they seem not to
pay: in the first steps, and after a long time without drafted steps.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from app.engine.block.block import MAX_DEPTH
from app.engine.lookahead.draft_model_budget import DraftModelBudget
from app.engine.lookahead.jacobi_window import JacobiWindow, WindowSizer
from app.engine.lookahead.step_time_curve import StepTimeCurve
from app.values.largest_step import tree_rows
from app.values.messages import Decoding, Split

MIN_REACH = 1e-4
"""Guesses of a smaller reach are left out, even if the plan has rows to spend."""
MIN_ROWS_FOR_WINDOW = 16
"""The smallest row budget for which a step has a window; with less, the tree would have too few rows."""
MEMORY = 0.97
"""Factor by which the weight of earlier steps in the running speed falls with each new step."""
SPARE = 16
"""Rows that are drafted beyond twice the number that paid recently, to see whether more would pay."""
FLOOR = 0.25
"""Guesses are looked up if their reach is at least this part of the cheapest row's cost in tokens, because
several of them together may fill a bucket."""
CHECK, CLEAR = 48, 1.3
"""After CHECK drafted steps a plain one is timed, unless drafting is more than CLEAR times as fast."""
CHECK_SOON = 12
"""After CHECK_SOON drafted steps a plain one is timed, as long as fewer than PROOF plain steps were timed, because
their time shows what drafts gain."""
PATIENCE = 4
"""Drafted steps in a row that did not pay, after which plain steps follow."""
LOSS = 0.03
"""The share of the time that drafts may cost while they do not pay."""
TRIAL = 8
"""Rows that are fed although they do not pay, while the curve is not proven by real steps."""
TUNED_MIN_REACH = 0.002
"""Guesses of a smaller reach are not looked up by the tuner, even if rows cost nothing."""


@dataclass(frozen=True, slots=True)
class DraftPlan:
    """What a step may draft: a tree of `rows` rows, `depth` guesses in a line, no reach below `min_reach`.

    `is_plain` means that the step drafts nothing and feeds no window."""

    rows: int
    depth: int
    min_reach: float
    is_plain: bool = False


PLAIN_STEP = DraftPlan(1, 0, 1.0, is_plain=True)


@dataclass(frozen=True, slots=True)
class DraftedStep:
    """What a step with a draft tree fed and committed. `reaches` are the reaches of the tree's rows, best first."""

    reaches: Sequence[float]
    window: JacobiWindow
    rows: int  # rows of the block, plus the runner's pending rows
    tokens: int  # number of committed tokens
    from_window: int  # how many of the committed tokens came from the window
    seconds: float


class DraftPlanner:
    """Decides how much to draft before each step, and how much to feed after drafting; learns from the step.

    This base class ignores time: the whole drafted tree is fed, and no step is plain."""

    ngram: int = 3
    columns: int
    """The number of columns that the reply's window begins with."""

    def __init__(self, sizer: WindowSizer) -> None:
        self.sizer = sizer

    def plan(self, window_rows: int) -> DraftPlan:
        """Plan what the next step may draft in addition to its window's rows and pending rows."""
        raise NotImplementedError

    def kept(self, reaches: Sequence[float], window_rows: int) -> int:
        """Return how many rows of a drafted tree the step should feed; its `reaches` come best first."""
        del window_rows
        return len(reaches)

    def observe(self, step: DraftedStep) -> Split:
        """Learn from a step; return how it spent its rows. May narrow the window."""
        raise NotImplementedError

    def observe_plain(self, seconds: float, rows: int = 1) -> Split:
        """Learn from a plain step; return how it spent its rows: one, and any pending rows of the runner."""
        del seconds, rows
        return Split()


class FixedSizesPlanner(DraftPlanner):
    """Plans the fixed sizes W, N and G that the user chose: trees of G guesses of N - 1 tokens."""

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
    """Gives the steps of a reply a fixed number of rows on average.

    A step that finds little to guess leaves rows for later steps; no step gets more than twice the budget."""

    def __init__(self, rows: int, sizer: WindowSizer) -> None:
        super().__init__(sizer if rows >= MIN_ROWS_FOR_WINDOW else WindowSizer(0))
        # The window gets at most a third of the budget, so that two thirds are left for the tree.
        self.columns = min(self.sizer.begin_reply(), rows // (3 * (self.ngram - 1)))
        self._rows = rows
        self._left = 0

    def plan(self, window_rows: int) -> DraftPlan:
        """Plan the budget plus a quarter of the rows left over by earlier steps, at most twice the budget."""
        rows = min(self._rows + self._left // 4, 2 * self._rows)
        return DraftPlan(max(rows - window_rows, 1), MAX_DEPTH, MIN_REACH)

    def observe(self, step: DraftedStep) -> Split:
        """Count the rows left over; charge each row of the window with the reach of the tree's last row."""
        split = Split(len(step.reaches), step.window.size)
        self.sizer.settle(step.window, step.window.size * step.reaches[-1], step.from_window)
        self._left += self._rows - step.rows
        return split


class Tuner(DraftPlanner):
    """A planner that maximises tokens per second on the curve of this model and machine."""

    def __init__(
        self,
        curve: StepTimeCurve,
        sizer: WindowSizer,
        budget: DraftModelBudget | None = None,
        context: int = 0,
    ) -> None:
        """Start a reply after `context` tokens; `budget` decides when a draft model, if any, is asked."""
        super().__init__(sizer)
        self._budget = budget
        self.columns = sizer.begin_reply()  # number of columns that paid so far
        self._curve, self._context = curve, context
        curve.move_to(context)
        self._tokens, self._time = 1.0, curve.plain
        self._recent_rows = SPARE  # rows that paid recently
        self._steps_since_plain = 0
        self._plain_left: int | None = None  # plain steps before the next draft; None if not decided yet
        self._failures = 0  # drafted steps in a row that did not pay

    def plan(self, window_rows: int) -> DraftPlan:
        """Plan a plain step if drafts do not pay or a plain step is due; else plan more rows than paid recently."""
        if self._plain_left is None:
            self._plain_left = self._plain_steps_due()
        if self._plain_left:
            self._plain_left -= 1
            return PLAIN_STEP
        self._plain_left = None
        if self._budget:
            self._budget.price(self._speed)
        rows = min(self._curve.largest - window_rows, 2 * self._recent_rows + SPARE)
        price = 0.0 if self._curve.is_unproven else FLOOR * self._curve.cheapest_row * self._speed
        return DraftPlan(max(rows, 1), MAX_DEPTH, max(price, TUNED_MIN_REACH))

    def _plain_steps_due(self) -> int:
        """Return how many plain steps come before the next draft."""
        curve = self._curve
        if self._failures >= PATIENCE:
            return round((curve.seconds[1] / curve.plain - 1) / LOSS)
        is_close = self._steps_since_plain >= CHECK and self._speed * curve.plain < CLEAR
        is_unknown = self._steps_since_plain >= CHECK_SOON and curve.is_plain_unproven
        return int(is_close or is_unknown)

    def kept(self, reaches: Sequence[float], window_rows: int) -> int:
        """Return how many rows have the largest worth; if none pays and the curve is unproven, try a few."""
        kept = self._best(reaches, window_rows)
        self._recent_rows = max(kept, self._recent_rows - 1)
        self._failures = 0 if kept > 1 else self._failures + 1
        if kept == 1 and self._curve.is_unproven:
            return min(TRIAL, len(reaches))
        return kept

    def _best(self, reaches: Sequence[float], window: int) -> int:
        """Find how many rows of the tree, fed with the window's, are worth most; 1 if a plain step is."""
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
        """Update the speed and, unless pending rows were fed as well, the time of a plain step."""
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
        """Update the curve at this bucket, the speed, and the window's cost and gain."""
        tree, window = len(step.reaches), step.window.size
        self.sizer.settle(step.window, self._window_cost(step.reaches, window), step.from_window)
        self._steps_since_plain += 1
        asked = self._budget.settle(step.seconds) if self._budget else 0.0
        split = Split(tree, window, (self._drafted_seconds(step.rows) + asked) / self._curve.plain)
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

    def _window_cost(self, reaches: Sequence[float], window: int) -> float:
        """Return the worth of the window's time in tokens, or of its rows in the tree if that is more."""
        rows, seconds = len(reaches), self._curve.seconds
        time = self._drafted_seconds(rows + window) - seconds[rows]
        return max(self._speed * time, window * reaches[-1])

    @property
    def _speed(self) -> float:
        """Tokens per second recently, at least those of plain steps, which can be chosen at any time."""
        return max(self._tokens / self._time, 1 / self._curve.plain)


class ChainTuner(Tuner):
    """A tuner for models that take only chains. If a guess is wrong, the accepted rows must be fed again.

    So each chain is also charged with the expected cost of feeding rows again in the next step."""

    def _best(self, reaches: Sequence[float], pending: int) -> int:
        """Find how many rows of the chain have the largest worth, fed with the pending rows."""
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
