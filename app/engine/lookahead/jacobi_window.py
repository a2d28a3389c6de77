"""The lookahead branch: W columns by N-1 rows of guesses that the model refines in parallel (Jacobi iteration).

Column i, row r guesses the token i + r places behind the current one, which itself stands in column 0 of row 0.
Each step the model reads the top row and predicts what follows it: the next row. With W=3, N=4 and c the current
token (numbers say how many places behind c):

    row 2      2  3  4      the model predicts after these: 3  4  5  -> n-grams  c 1 2 3,  1 2 3 4,  2 3 4 5
    row 1      1  2  3                                     (column i: row 0, row 1, row 2, the prediction)
    row 0      c  1  2

Who sees whom: row 0 is a line of text, each token sees those to its left; in the rows above, column i sees row 0
up to column i, and column i of the rows below it: the parent of a guess stands below it, in row 0 to its left.
After the step the rows move down by one and what the model predicted becomes the top row. However many tokens a
step committed, the rows move by one, as in LADE: the window then stands a little behind the text, and on
stories260K earned as much as one whose columns move along.
"""

from collections.abc import Sequence

from app.values.step_rows import window_rows


class JacobiWindow:
    """The guesses of one reply: rows[N-1][W]. Whatever rows[0][0] holds, the current token stands for it.

    A window of width 0 is closed: it adds nothing to a block and learns nothing."""

    def __init__(self, width: int, ngram: int, line: Sequence[int]) -> None:
        """Start from a line of W + N - 2 guesses: the current token, and what may follow it."""
        if width and len(line) != width + ngram - 2:
            raise ValueError(f"a window {width} wide needs {width + ngram - 2} guesses, got {len(line)}")
        self.width = width
        self.rows = [list(line[row : row + width]) for row in range(ngram - 1)]

    def copy(self) -> "JacobiWindow":
        """Copy the guesses as they are now."""
        copied = JacobiWindow(0, len(self.rows) + 1, ())
        copied.width, copied.rows = self.width, self.rows
        return copied

    @property
    def size(self) -> int:
        """Rows of a block that the guesses take."""
        return window_rows(self.width, len(self.rows) + 1)

    @property
    def need(self) -> int:
        """Rows that it adds to a step, fed or read: with N = 2 the current token is read for it once more."""
        return max(self.size, self.width)

    @property
    def reach(self) -> int:
        """How many places behind the current token the farthest guess stands."""
        return self.width + len(self.rows) - 2 if self.width else 0

    def narrow(self, width: int) -> None:
        """Keep the first columns only; with none left the window is closed for good."""
        self.width = min(self.width, max(width, 0))
        self.rows = [row[: self.width] for row in self.rows]

    def fit(self, places: int, rows: int) -> None:
        """Close the window if it would reach too far beyond the current token, or take too many rows."""
        if self.reach > places or self.need > rows:
            self.narrow(0)

    def tokens(self) -> list[int]:
        """The guesses in block order: row by row, without the current token."""
        return [token for row in self.rows for token in row][1:]

    def shown(self, current: int) -> tuple[tuple[int, ...], ...]:
        """The rows with the current token in its place; () when the window is closed."""
        if not self.width:
            return ()
        first, *above = map(tuple, self.rows)
        return ((current, *first[1:]), *above)

    def offsets(self) -> list[int]:
        """How many places behind the current token each of `tokens` stands."""
        return [row + column for row in range(len(self.rows)) for column in range(self.width)][1:]

    def top(self) -> list[int]:
        """Where the top row stands in block order, the current token being place 0."""
        last = self.width * len(self.rows)
        return list(range(last - self.width, last))

    def parents(self) -> list[int]:
        """Which place in block order each of `tokens` continues, the current token being place 0."""
        width = self.width
        return [place - (1 if place < width else width) for place in range(1, width * len(self.rows))]

    def columns(self, current: int) -> list[list[int]]:
        """Each column as a line of N - 1 tokens."""
        columns = [list(column) for column in zip(*self.rows, strict=True)]
        for column in columns[:1]:
            column[0] = current
        return columns

    def lines(self, current: int, predicted: Sequence[int]) -> list[list[int]]:
        """Each column, and after it what the model predicted [W]."""
        return [[*column, token] for column, token in zip(self.columns(current), predicted, strict=True)]

    def shift(self, predicted: Sequence[int]) -> None:
        """Move the rows down by one; what the model predicted [W] becomes the top row."""
        self.rows = [*self.rows[1:], list(predicted)]


STEPS = 16
"""Steps between two comparisons."""
MOST_COLUMNS = 8
RETRY = 32
"""Replies after which a window that never paid is tried again."""
WORTH = 2.0
"""Tokens that pay for one: the tree would have drafted many of the window's without it (docs/lookahead.md)."""
FADE = 0.5
"""What is left of both sums after a comparison."""


class WindowSizer:
    """Chooses how many columns the window has, over all replies of a model: columns that never pay are dropped.

    The window's rows could have been the tree's, or could have been left out: the planner estimates the tokens that
    they would have brought elsewhere, their price. The window earns a token for each accepted draft token that came
    from its lines. Every few steps the two sums are compared: a column is dropped if the window earned less than
    its price, and the next reply begins with one more if it earned twice as much."""

    def __init__(self, columns: int) -> None:
        self._columns = columns
        self._earned = self._price = 0.0
        self._steps = self._replies = 0

    @property
    def columns(self) -> int:
        """How many columns a reply's window begins with."""
        return self._columns

    def begin_reply(self) -> int:
        """Choose the columns of a new reply's window; now and then one although none paid, to try again."""
        self._replies += 1
        return self._columns or int(self._replies % RETRY == 0)

    def settle(self, window: JacobiWindow, price: float, accepted: int) -> None:
        """Count a step that fed this window at this price, and how many of its guesses were accepted."""
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
