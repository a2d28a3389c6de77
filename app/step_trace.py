"""A trace of one step: the draft tree, the window, the accepted path, and what the model predicted in each row.

current 7, drafts 8 (then 9) and 5; the model says 8 behind 7 and 4 behind 8:

tokens    7  8  9  5        row 0 is the current token
parents  -1  0  1  0
predicted 8  4  .  .        the model's likeliest token behind each row
accepted  0  1              the rows whose keys were kept; the step wrote 8 and 4
"""

from dataclasses import dataclass
from typing import Literal

from app.requiring import require

Origin = Literal["model", "window", "prompt", "output", "document", "history", "successor"]
"""Who proposed a token: the model itself (always right), or the pool's source that drafted it."""


@dataclass(frozen=True, slots=True)
class StepTrace:
    """The draft tree of one step by its rows, and the window by its rows of tokens, oldest guesses first.

    All tokens are ids. A step that drafted nothing has row 0 alone; a prefill's first token has no rows. The
    current token stands in the window's first place, as it is fed; without a window there are no rows of it."""

    tokens: tuple[int, ...] = ()
    parents: tuple[int, ...] = ()
    origins: tuple[Origin, ...] = ()
    predicted: tuple[int, ...] = ()
    accepted: tuple[int, ...] = ()
    window: tuple[tuple[int, ...], ...] = ()

    def __post_init__(self) -> None:
        rows = len(self.tokens)
        columns = (self.parents, self.origins, self.predicted)
        require(all(len(column) == rows for column in columns), "a trace has one of each a row", columns)
        require(all(0 <= row < rows for row in self.accepted), "accepted rows must be rows", self.accepted)


NO_TRACE = StepTrace()
"""Where there was no step."""


@dataclass(frozen=True, slots=True)
class Margin:
    """The two likeliest tokens at a place of a text, as text, and by how much the first one's logit leads."""

    first: str
    second: str
    margin: float

    def __post_init__(self) -> None:
        require(self.margin >= 0, "the likeliest token leads", self.margin)
