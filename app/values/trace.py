"""A trace of one step: the draft tree, the window, the accepted path, and what the model predicted in each row.

current 7, drafts 8 (then 9) and 5; the model says 8 behind 7 and 4 behind 8:

tokens    7  8  9  5        row 0 is the current token
parents  -1  0  1  0
predicted 8  4  .  .        the model's likeliest token behind each row
accepted  0  1              the rows whose keys were kept; the step wrote 8 and 4
"""

from dataclasses import dataclass
from typing import Literal

from app.values.validation import require

Origin = Literal[
    "model",
    "window",
    "prompt",
    "output",
    "document",
    "prediction",
    "history",
    "successor",
    "grammar",
    "draft",
]
"""Who proposed a token: the model itself, the source in the n-gram pool that drafted it, the reply's grammar,
the draft model, or a head that the checkpoint carries."""


@dataclass(frozen=True, slots=True)
class StepTrace:
    """The draft tree of one step by its rows, and the window by its rows of tokens, oldest guesses first.

    All tokens are ids. A step without drafts has only row 0; the first token from the prefill has no rows. The
    window's first token is the current token; without a window it has no rows."""

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
"""For what is not a step, and for steps whose trace is no longer kept."""
TRACED_STEPS = 256
"""A reply keeps the traces of this many newest steps: the X-ray goes back as far."""


@dataclass(frozen=True, slots=True)
class Margin:
    """The two most likely tokens at a position, as text, and the difference of their logits."""

    first: str
    second: str
    margin: float

    def __post_init__(self) -> None:
        require(self.margin >= 0, "the likeliest token leads", self.margin)
