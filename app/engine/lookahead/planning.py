"""How wide a step is: the seam between the decoder, which can verify any tree, and those who pay for its rows.

Three planners know three kinds of bounds: the authors' fixed W, N and G; a row budget that holds on average; and
the tuner (tuner.py), which looks for the most tokens per second on this machine.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from app.engine.lookahead.window_share import WindowShare
from app.messages import Decoding, Split
from app.step_rows import tree_rows

UNLIKELY = 1e-4
"""A guess that the model reaches less often is left out, even where rows are to be spent."""
DEEPEST = 24
"""The longest line of guesses that a planner without N asks for."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What a step may draft: a tree of so many rows and guesses in a line, each at least as likely as `floor`."""

    rows: int
    depth: int
    floor: float


class Planner(Protocol):
    """Decides before each step how much to draft, and after drafting how much of it pays."""

    share: WindowShare
    ngram: int

    def columns(self) -> int:
        """How many columns the window of the reply begins with."""

    def plan(self, window: int) -> Plan:
        """What the next step may draft beside so many window rows."""

    def kept(self, reaches: Sequence[float], window: int) -> int:
        """How many rows of a tree, best first with these reaches, the step should feed."""

    def rest(self) -> int:
        """How many plain steps to take before the next look at what could be drafted."""

    def observe_rest(self, seconds: float) -> None:
        """One of these plain steps took this long."""

    def price(self, reaches: Sequence[float], window: int) -> float:
        """The tokens that the window's rows would be worth elsewhere."""

    def observe(self, rows: int, tokens: int, seconds: float) -> None:
        """A step of so many rows committed so many tokens."""

    def split(self, tree: int, window: int) -> Split:
        """What to tell about a step."""


class Untimed:
    """What planners have in common that do not look at the clock: all that they asked for is fed."""

    share: WindowShare

    def columns(self) -> int:
        """As many as the share has."""
        return self.share.open()

    def kept(self, reaches: Sequence[float], window: int) -> int:
        """All of them."""
        del window
        return len(reaches)

    def rest(self) -> int:
        """Never."""
        return 0

    def observe_rest(self, seconds: float) -> None:
        """There is none."""

    def split(self, tree: int, window: int) -> Split:
        """The rows of both branches."""
        return Split(tree, window)


class FixedSizes(Untimed):
    """W, N and G as the person chose them: the tree has the rows of G guesses of N - 1 tokens."""

    def __init__(self, decoding: Decoding) -> None:
        self.share = WindowShare(decoding.window)
        self.ngram = decoding.ngram
        self._plan = Plan(tree_rows(decoding.guesses, decoding.ngram), decoding.ngram - 1, UNLIKELY)

    def plan(self, window: int) -> Plan:
        """The same for every step."""
        del window
        return self._plan

    def price(self, reaches: Sequence[float], window: int) -> float:
        """Nothing: the person wants this window."""
        del reaches, window
        return 0.0

    def observe(self, rows: int, tokens: int, seconds: float) -> None:
        """Nothing is to be learned."""


class RowBudget(Untimed):
    """So many rows a step, on average over the reply.

    A step that finds little to guess leaves its rows to the later ones; none gets more than twice the budget."""

    ngram = 3

    def __init__(self, rows: int, share: WindowShare) -> None:
        self.share = share if rows >= ROOM_FOR_WINDOW else WindowShare(0)
        self._rows = rows
        self._left = 0

    def columns(self) -> int:
        """At most so many that two thirds of the budget are the tree's."""
        return min(self.share.open(), self._rows // (3 * (self.ngram - 1)))

    def plan(self, window: int) -> Plan:
        """The budget and a quarter of what is left over, at most twice the budget."""
        rows = min(self._rows + self._left // 4, 2 * self._rows)
        return Plan(max(rows - window, 1), DEEPEST, UNLIKELY)

    def price(self, reaches: Sequence[float], window: int) -> float:
        """A window row takes the place of one more row like the tree's last."""
        return window * reaches[-1]

    def observe(self, rows: int, tokens: int, seconds: float) -> None:
        """Keep count of what is left over."""
        del tokens, seconds
        self._left += self._rows - rows


ROOM_FOR_WINDOW = 16
"""Rows below which a window would starve the tree."""
