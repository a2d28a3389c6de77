"""One step as a picture: what was drafted and guessed, which path the model took, what it wanted instead.

current 7, drafts 8 (then 9) and 5; the model says 8 behind 7 and 4 behind 8:

tokens    7  8  9  5        row 0 is the current token
parents  -1  0  1  0
said      8  4  .  .        what the model holds likeliest behind each row
accepted  0  1              the rows whose keys were kept; the step wrote 8 and 4
"""

from dataclasses import dataclass
from typing import Literal

from app.validation import require

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
    said: tuple[int, ...] = ()
    accepted: tuple[int, ...] = ()
    window: tuple[tuple[int, ...], ...] = ()

    def __post_init__(self) -> None:
        rows = len(self.tokens)
        columns = (self.parents, self.origins, self.said)
        require(all(len(column) == rows for column in columns), "a trace has one of each a row", columns)
        require(all(0 <= row < rows for row in self.accepted), "accepted rows must be rows", self.accepted)


NO_TRACE = StepTrace()
"""For what is not a step, and for steps whose trace is no longer kept."""
TRACED_STEPS = 256
"""A reply keeps the traces of this many newest steps: the X-ray goes back as far."""


@dataclass(frozen=True, slots=True)
class Margin:
    """The two likeliest tokens at a place of a text, as text, and by how much the first one's logit leads."""

    first: str
    second: str
    margin: float

    def __post_init__(self) -> None:
        require(self.margin >= 0, "the likeliest token leads", self.margin)
