"""The lookahead branch: W columns by N-1 rows of guesses that the model refines in parallel (Jacobi iteration).

Column i of row r is a guess of the token i + r positions after the current token, which itself is column 0 of
row 0. In each step the model predicts the token after each guess of the top row; these predictions are the next
row. Each column with its prediction is an n-gram for the pool. With W=3, N=4 and c the current token (a number
is the guess that many positions after c):

    row 2      2  3  4      the model predicts after these: 3  4  5      n-grams: c 1 2 3,  1 2 3 4,  2 3 4 5
    row 1      1  2  3
    row 0      c  1  2

In row 0 a guess sees the tokens to its left. In the rows above, a guess in column i sees row 0 up to column i, and
column i of the rows between. So the parent of a guess is the guess below it, or in row 0 the guess to its left.

After the step the rows move down by one, and the predictions become the top row. As in LADE (the authors' code),
this also happens after steps that committed several tokens.
"""

from collections.abc import Sequence

from app.values.largest_step import window_rows


class JacobiWindow:
    """The guesses of one reply: rows[N-1][W]. rows[0][0] is ignored, because it is the current token's place.

    A window of width 0 is closed: it adds nothing to a block and learns nothing."""

    def __init__(self, width: int, ngram: int, line: Sequence[int]) -> None:
        """Start from a line of W + N - 2 tokens: the current token, then guesses of the tokens after it."""
        if width and len(line) != width + ngram - 2:
            raise ValueError(
                f"a window {width} wide needs a line of {width + ngram - 2} tokens, not {len(line)}"
            )
        self.width = width
        self.rows = [list(line[row : row + width]) for row in range(ngram - 1)]

    @property
    def size(self) -> int:
        """The number of rows that the guesses take in a block."""
        return window_rows(self.width, len(self.rows) + 1)

    @property
    def need(self) -> int:
        """How many block rows the window needs: the larger of the number that it adds and the number whose logits
        it reads. With N = 2 it reads one more than it adds: the current token's, which is in the block anyway."""
        return max(self.size, self.width)

    @property
    def reach(self) -> int:
        """How many positions the farthest guess is after the current token."""
        return self.width + len(self.rows) - 2 if self.width else 0

    def narrow(self, width: int) -> None:
        """Keep only the first `width` columns; 0 closes the window for the rest of the reply."""
        self.width = min(self.width, max(width, 0))
        self.rows = [row[: self.width] for row in self.rows]

    def fit(self, positions: int, rows: int) -> None:
        """Close the window if it reaches more than `positions` ahead or needs over `rows` rows."""
        if self.reach > positions or self.need > rows:
            self.narrow(0)

    def tokens(self) -> list[int]:
        """Return the guesses in block order: row by row, without the current token."""
        return [token for row in self.rows for token in row][1:]

    def shown(self, current: int) -> tuple[tuple[int, ...], ...]:
        """Return the rows, with the current token as the first token of row 0; () if the window is closed."""
        if not self.width:
            return ()
        first, *above = map(tuple, self.rows)
        return ((current, *first[1:]), *above)

    def offsets(self) -> list[int]:
        """Return how many positions each of `tokens()` is after the current token."""
        return [row + column for row in range(len(self.rows)) for column in range(self.width)][1:]

    def top(self) -> list[int]:
        """Return the indexes of the top row in block order, in which the current token has index 0."""
        last = self.width * len(self.rows)
        return list(range(last - self.width, last))

    def parents(self) -> list[int]:
        """Return the index of each token's parent in block order; the current token has index 0."""
        width = self.width
        return [index - (1 if index < width else width) for index in range(1, width * len(self.rows))]

    def columns(self, current: int) -> list[list[int]]:
        """Return each column as a line of N - 1 tokens; the first line begins with the current token."""
        columns = [list(column) for column in zip(*self.rows, strict=True)]
        for column in columns[:1]:
            column[0] = current
        return columns

    def shift(self, predicted: Sequence[int]) -> None:
        """Move the rows down by one; the predicted tokens [W] become the top row."""
        self.rows = [*self.rows[1:], list(predicted)]


STEPS = 16
"""Steps between two comparisons of the window's cost and gain."""
MOST_COLUMNS = 8
RETRY = 32
"""Replies after which a window without columns is tried again."""
WORTH = 2.0
"""Tokens that a window must gain per token of cost, because the tree would have drafted many of them anyway."""
FADE = 0.5
"""Factor by which the sums of cost and gain are multiplied after each comparison."""


class WindowSizer:
    """Chooses how many columns the window has, in all replies of a model.

    The window's cost is the planner's estimate of lost tokens: what a larger draft tree would have brought in the
    window's rows, or further steps in the window's time. The gain is the number of accepted tokens from the
    window's n-grams. Every STEPS steps the sums are compared. If the window gained less than WORTH times its cost,
    it loses a column. If it gained more than 2 * WORTH times its cost, the next reply begins with one more column
    (at most MOST_COLUMNS)."""

    def __init__(self, columns: int) -> None:
        self.columns = columns  # the number with which a reply's window begins
        self._gained = self._cost = 0.0
        self._steps = self._replies = 0

    def begin_reply(self) -> int:
        """Count a new reply and return its columns.

        If the window has no columns, every RETRY-th reply gets one, to try again."""
        self._replies += 1
        return self.columns or int(self._replies % RETRY == 0)

    def settle(self, window: JacobiWindow, cost: float, accepted: int) -> None:
        """Count the window's cost in a step, and the accepted tokens that came from it. May narrow the window."""
        if not window.width:
            return
        self._gained += accepted
        self._cost += cost
        self._steps += 1
        if self._steps % STEPS:
            return
        if self._gained < WORTH * self._cost:
            window.narrow(window.width - 1)
            self.columns = window.width
        elif self._gained > 2 * WORTH * self._cost > 0:
            self.columns = min(window.width + 1, MOST_COLUMNS)
        self._gained *= FADE
        self._cost *= FADE
