"""What is told of a reply's steps: the running numbers, and a trace of each of the newest ones. A trace has the
draft tree, the window, the accepted path, and what the model predicted in each row.

The current token is 7, drafts are 8 (then 9) and 5; the model predicts 8 after 7 and 4 after 8:

tokens    7  8  9  5        row 0 is the current token
parents  -1  0  1  0
predicted 8  4  .  .        the model's likeliest token after each row
accepted  0  1              the rows whose keys were kept; the step wrote 8 and 4
"""

from dataclasses import dataclass, field
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
"""The trace of what is not a step, and of steps whose trace is no longer kept."""
TRACED_STEPS = 256
"""A reply keeps the traces of this many newest steps: the X-ray goes back as far."""


@dataclass(frozen=True, slots=True)
class Split:
    """Rows of the newest step's draft tree and window, and its cost relative to a plain step (0: not measured)."""

    tree: int = 1
    window: int = 0
    cost: float = 0.0


@dataclass(frozen=True, slots=True)
class Statistics:
    """Running numbers of one reply. The prefill's first token counts in neither tokens nor steps."""

    prompt_tokens: int = 0
    reused_tokens: int = 0
    tokens: int = 0
    steps: int = 0
    hits: int = 0
    covered: int = 0
    rows: int = 0
    pool_size: int = 0
    split: Split = field(default_factory=Split)
    time_to_first_token: float = 0.0
    seconds: float = 0.0

    @property
    def tokens_per_step(self) -> float:
        """Committed tokens per forward pass; exactly 1.0 for plain decoding, 0.0 before the first step."""
        return self.tokens / self.steps if self.steps else 0.0

    @property
    def hit_rate(self) -> float:
        """Share of steps in which at least one drafted token was accepted."""
        return self.hits / self.steps if self.steps else 0.0

    @property
    def coverage(self) -> float:
        """Share of steps for which the pool had any draft."""
        return self.covered / self.steps if self.steps else 0.0

    @property
    def rows_per_step(self) -> float:
        """Mean rows of a block."""
        return self.rows / self.steps if self.steps else 0.0

    @property
    def tokens_per_second(self) -> float:
        """Speed of decoding, prefill excluded."""
        return self.tokens / self.seconds if self.seconds else 0.0


@dataclass(frozen=True, slots=True)
class Margin:
    """The two most likely tokens at a position, as text, and the difference of their logits."""

    first: str
    second: str
    margin: float

    def __post_init__(self) -> None:
        require(self.margin >= 0, "the likeliest token leads", self.margin)
