"""How wide a step is: the seam between the decoder, which can verify any tree, and those who pay for its rows.

Three planners know three kinds of bounds: the authors' fixed W, N and G; a row budget that holds on average; and
the tuner (tuner.py), which looks for the most tokens per second on this machine.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from app.engine.block.block import MAX_DEPTH
from app.engine.lookahead.jacobi_window import JacobiWindow, WindowSizer
from app.values.messages import Decoding, Split
from app.values.step_rows import tree_rows

MIN_REACH = 1e-4
"""A guess that the model reaches less often is left out, even where rows are to be spent."""
MIN_ROWS_FOR_WINDOW = 16
"""Rows below which a window would starve the tree."""


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


class DraftPlanner(Protocol):
    """Decides before each step how much to draft, after drafting how much to feed, and learns from the step."""

    ngram: int
    columns: int
    """How many columns the window of the reply begins with."""

    def plan(self, window_rows: int) -> DraftPlan:
        """What the next step may draft beside so many rows of a window, or pending ones."""

    def kept(self, reaches: Sequence[float], window_rows: int) -> int:
        """How many rows of a tree, best first with these reaches, the step should feed."""

    def observe(self, step: DraftedStep) -> Split:
        """Learn from a step; may narrow its window. Returns how the step spent its rows."""

    def observe_plain(self, seconds: float, rows: int = 1) -> Split:
        """Learn from a plain step; with pending rows it fed more than one."""


class UntimedPlanner:
    """The base of planners that ignore time: the whole drafted tree is fed."""

    def __init__(self, sizer: WindowSizer) -> None:
        self.sizer = sizer

    def kept(self, reaches: Sequence[float], window_rows: int) -> int:
        """All of them."""
        del window_rows
        return len(reaches)

    def observe_plain(self, seconds: float, rows: int = 1) -> Split:
        """These planners ask for no plain steps."""
        del seconds, rows
        return Split()


class FixedSizesPlanner(UntimedPlanner):
    """W, N and G as the person chose them: the tree has the rows of G guesses of N - 1 tokens."""

    def __init__(self, decoding: Decoding) -> None:
        super().__init__(WindowSizer(decoding.window))
        self.columns = self.sizer.begin_reply()
        self.ngram = decoding.ngram
        self._plan = DraftPlan(tree_rows(decoding.guesses, decoding.ngram), decoding.ngram - 1, MIN_REACH)

    def plan(self, window_rows: int) -> DraftPlan:
        """The same for every step."""
        del window_rows
        return self._plan

    def observe(self, step: DraftedStep) -> Split:
        """Nothing: the person wants this window."""
        return Split(len(step.reaches), step.window.size)


class RowBudgetPlanner(UntimedPlanner):
    """So many rows a step, on average over the reply.

    A step that finds little to guess leaves its rows to the later ones; none gets more than twice the budget."""

    ngram = 3

    def __init__(self, rows: int, sizer: WindowSizer) -> None:
        super().__init__(sizer if rows >= MIN_ROWS_FOR_WINDOW else WindowSizer(0))
        # At most so many columns that two thirds of the budget are the tree's.
        self.columns = min(self.sizer.begin_reply(), rows // (3 * (self.ngram - 1)))
        self._rows = rows
        self._left = 0

    def plan(self, window_rows: int) -> DraftPlan:
        """The budget and a quarter of what is left over, at most twice the budget."""
        rows = min(self._rows + self._left // 4, 2 * self._rows)
        return DraftPlan(max(rows - window_rows, 1), MAX_DEPTH, MIN_REACH)

    def observe(self, step: DraftedStep) -> Split:
        """Count what is left over. A window row takes the place of one more row like the tree's last."""
        split = Split(len(step.reaches), step.window.size)
        self.sizer.settle(step.window, step.window.size * step.reaches[-1], step.from_window)
        self._left += self._rows - step.rows
        return split
