"""Decides how many rows each step feeds. A planner uses the fixed sizes W, N and G of the paper on lookahead
decoding (Fu et al. 2024), keeps to a row budget, or is the tuner, which maximises tokens per second.

Beside the tree (`draft_tree.py`), a step feeds the window, and pending rows: accepted rows that the runner must
feed once more (`sequential_runner.py`).

For the tuner a row costs time and may bring tokens. If R tokens a second were written recently, a second is worth
R tokens, and a step of n rows is worth

    its expected tokens, 1 + reach 1 + ... + reach (n - 1),   minus   R * seconds(n)

seconds(n) is read from the curve of step times (`step_time_curve.py`). The n with the largest worth gives the
most tokens per second in the long run (Dinkelbach 1967: maximise a ratio of sums by pricing its denominator at
the ratio reached so far). With R = 500 and steps of 2.0, 2.2 and 3.0 ms for 1, 8 and 16 rows, seven guesses of
reach 0.1 bring 0.7 tokens and cost 0.1: they pay. Eight further guesses of reach 0.03 bring 0.24 and cost 0.4.
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
"""Planners that do not measure time leave out guesses of a smaller reach, even if rows are left."""
MIN_ROWS_FOR_WINDOW = 16
"""The smallest row budget with which a step may have a window; with less, the tree would have too few rows."""
MEMORY = 0.97
"""Factor by which the weight of earlier steps in the running speed falls with each new step."""
SPARE = 16
"""Rows that are drafted beyond twice the number that paid recently, to see whether more would pay."""
FLOOR = 0.25
"""Guesses are looked up if their reach is at least this part of the tokens that the cheapest row costs. The
part is small, because several guesses may share the cost of the next bucket."""
CHECK, CLEAR = 48, 1.3
"""After CHECK drafted steps a plain step is timed, unless drafting is at least CLEAR times as fast."""
CHECK_SOON = 12
"""After CHECK_SOON drafted steps a plain step is timed while the curve's time of a plain step is unproven
(`is_plain_unproven` in `step_time_curve.py`), because this time shows how much drafts gain."""
PATIENCE = 4
"""After this many drafted steps in a row that did not pay, plain steps come before each further draft, because a
drafted step costs a little even if none of its guesses is fed."""
LOSS = 0.03
"""The share of the time that drafts may cost while they do not pay."""
TRIAL = 8
"""Maximum number of tree rows that are fed, while the curve is unproven, although no guess seems to pay. The curve
may have been measured on a busy machine."""
TUNED_MIN_REACH = 0.002
"""Guesses of a smaller reach are not looked up by the tuner, even if rows cost nothing."""


@dataclass(frozen=True, slots=True)
class DraftPlan:
    """The largest tree that a step may draft: `rows` rows, `depth` guesses on a path, no reach below `min_reach`.

    `is_plain` means that the step drafts nothing and feeds no window."""

    rows: int
    depth: int
    min_reach: float
    is_plain: bool = False


PLAIN_STEP = DraftPlan(1, 0, 1.0, is_plain=True)


@dataclass(frozen=True, slots=True)
class DraftedStep:
    """What a step with a draft tree fed and committed. `reaches` has the reach of each tree row, best first."""

    reaches: Sequence[float]
    window: JacobiWindow
    rows: int  # rows of the block, plus the pending rows
    tokens: int
    from_window: int  # how many of the committed tokens came from the window
    seconds: float


class DraftPlanner:
    """The base class of planners. It feeds every drafted tree whole and ignores the times of steps."""

    ngram: int = 3
    columns: int
    """The number of columns that the reply's window begins with."""

    def __init__(self, sizer: WindowSizer) -> None:
        self.sizer = sizer

    def plan(self, window_rows: int) -> DraftPlan:
        """Plan the next step's tree. `window_rows` counts the rows of the window and the pending rows, which the
        step feeds together with the tree."""
        raise NotImplementedError

    def kept(self, reaches: Sequence[float], window_rows: int) -> int:
        """Return how many rows of a drafted tree the step should feed; the `reaches` of the rows are best first."""
        del window_rows
        return len(reaches)

    def observe(self, step: DraftedStep) -> Split:
        """Learn from a drafted step; return its rows and its cost (0 without times). May narrow the window."""
        raise NotImplementedError

    def observe_plain(self, seconds: float, rows: int = 1) -> Split:
        """Learn from a plain step; return its row and cost (0 without times). `rows` counts pending rows, too."""
        del seconds, rows
        return Split()


class FixedSizesPlanner(DraftPlanner):
    """Plans with the sizes W, N and G that the user chose: trees with rows for G lines of N - 1 guesses."""

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
    """Gives the steps of a reply at most `rows` rows on average: unused rows are kept for later steps."""

    def __init__(self, rows: int, sizer: WindowSizer) -> None:
        super().__init__(sizer if rows >= MIN_ROWS_FOR_WINDOW else WindowSizer(0))
        # The window gets at most a third of the budget, so that two thirds are left for the tree.
        self.columns = min(self.sizer.begin_reply(), rows // (3 * (self.ngram - 1)))
        self._rows = rows
        self._left = 0

    def plan(self, window_rows: int) -> DraftPlan:
        """Plan a step of the budget plus a quarter of the unused rows so far, at most twice the budget."""
        rows = min(self._rows + self._left // 4, 2 * self._rows)
        return DraftPlan(max(rows - window_rows, 1), MAX_DEPTH, MIN_REACH)

    def observe(self, step: DraftedStep) -> Split:
        """Count the unused rows, and the window's cost and gain. Each row of the window costs the reach of the
        tree's last row, because a further row of the tree would bring at most this number of tokens."""
        split = Split(len(step.reaches), step.window.size)
        self.sizer.settle(step.window, step.window.size * step.reaches[-1], step.from_window)
        self._left += self._rows - step.rows
        return split


class Tuner(DraftPlanner):
    """A planner that maximises tokens per second, by the step times of this model and machine (`curve`)."""

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
        self.columns = sizer.begin_reply()
        self._curve, self._context = curve, context
        curve.move_to(context)
        self._tokens, self._time = 1.0, curve.plain
        self._recent_rows = SPARE  # rows that paid recently
        self._steps_since_plain = 0
        self._plain_left: int | None = None  # plain steps before the next draft; None if not decided yet
        self._failures = 0  # drafted steps in a row that did not pay

    def plan(self, window_rows: int) -> DraftPlan:
        """Plan a plain step if one is due; otherwise plan a tree, if possible of more rows than paid recently."""
        curve = self._curve
        if self._plain_left is None:
            if self._failures >= PATIENCE:  # several plain steps, because recent drafts did not pay
                self._plain_left = round((curve.seconds[1] / curve.plain - 1) / LOSS)
            else:  # one plain step, if its time should be measured
                is_close = self._steps_since_plain >= CHECK and self._speed * curve.plain < CLEAR
                is_unknown = self._steps_since_plain >= CHECK_SOON and curve.is_plain_unproven
                self._plain_left = int(is_close or is_unknown)
        if self._plain_left:
            self._plain_left -= 1
            return PLAIN_STEP
        self._plain_left = None
        if self._budget:
            self._budget.price(self._speed)
        rows = min(curve.largest - window_rows, 2 * self._recent_rows + SPARE)
        price = 0.0 if curve.is_unproven else FLOOR * curve.cheapest_row * self._speed
        return DraftPlan(max(rows, 1), MAX_DEPTH, max(price, TUNED_MIN_REACH))

    def kept(self, reaches: Sequence[float], window_rows: int) -> int:
        """Return the number of tree rows with the largest worth; up to TRIAL rows if no guess pays and the curve is
        unproven."""
        kept = self._best(reaches, window_rows)
        self._recent_rows = max(kept, self._recent_rows - 1)
        self._failures = 0 if kept > 1 else self._failures + 1
        if kept == 1 and self._curve.is_unproven:
            return min(TRIAL, len(reaches))
        return kept

    def _best(self, reaches: Sequence[float], window: int) -> int:
        """Return the number of tree rows with the largest worth when they are fed together with the window's rows;
        1 if a plain step is worth more."""
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
        """Update the curve at the step's bucket, the speed, and the window's cost and gain."""
        tree, window = len(step.reaches), step.window.size
        # The larger of two costs: the window's time, and the tokens that as many tree rows would bring at most.
        window_seconds = self._drafted_seconds(tree + window) - self._curve.seconds[tree]
        window_cost = max(self._speed * window_seconds, window * step.reaches[-1])
        self.sizer.settle(step.window, window_cost, step.from_window)
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

    @property
    def _speed(self) -> float:
        """The recent tokens per second; at least those of plain steps, which the tuner can choose at any time."""
        return max(self._tokens / self._time, 1 / self._curve.plain)


class ChainTuner(Tuner):
    """A tuner for models that take only chains. If a guess is wrong, the accepted rows become pending rows.

    So the cost of a chain includes the expected cost of feeding these rows again in the next step."""

    def _best(self, reaches: Sequence[float], pending: int) -> int:
        """Return the number of chain rows with the largest worth when they are fed after the pending rows."""
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
