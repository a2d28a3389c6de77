"""Chooses how many columns the window has, so that columns that never pay are dropped.

The window's rows could have been the tree's, or could have been left out: the planner estimates the tokens that
they would have brought elsewhere, their price. The window earns a token for each accepted draft token that came
from its lines. Every few steps the two sums are compared: a column is dropped when the window earned less than its
price, and the next reply begins with one more when it earned twice as much.
"""

from app.engine.lookahead.jacobi_window import JacobiWindow

STEPS = 16
"""Steps between two comparisons."""
MOST_COLUMNS = 8
RETRY = 32
"""Replies after which a window that never paid is tried again."""
WORTH = 2.0
"""Tokens that pay for one: the tree would have drafted many of the window's without it (docs/notes)."""
FADE = 0.5
"""What is left of both sums after a comparison."""


class WindowSizer:
    """Compares the cost and the gain of a window, over all replies of a model."""

    def __init__(self, columns: int) -> None:
        self._columns = columns
        self._earned = self._price = 0.0
        self._steps = self._replies = 0

    @property
    def columns(self) -> int:
        """How many columns a reply's window begins with."""
        return self._columns

    def begin_reply(self) -> int:
        """The columns of a new reply's window; one now and then although none paid, to try again."""
        self._replies += 1
        return self._columns or int(self._replies % RETRY == 0)

    def settle(self, window: JacobiWindow, price: float, accepted: int) -> None:
        """Count a step that fed this window at this price, of whose guesses so many were accepted."""
        if not window.width:
            return
        self._earned += accepted
        self._price += price
        self._steps += 1
        if self._steps % STEPS == 0:
            self._compare(window)

    def _compare(self, window: JacobiWindow) -> None:
        if self._earned < WORTH * self._price:
            window.narrow(window.width - 1)
            self._columns = window.width
        elif self._earned > 2 * WORTH * self._price > 0:
            self._columns = min(window.width + 1, MOST_COLUMNS)
        self._earned *= FADE
        self._price *= FADE
