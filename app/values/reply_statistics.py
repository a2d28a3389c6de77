"""Numbers about a reply's steps, and traces of the newest steps. A trace for the current token 7 and four rows:

tokens    7  8  9  5        row 0 is the current token; drafts are 8 (then 9) and 5
parents  -1  0  1  0
predicted 8  4  .  .        the model's likeliest token after each row
accepted  0  1              the rows whose keys and values were kept; the step wrote 8 and 4
"""

from dataclasses import dataclass, field
from typing import Literal

from app.values.validation import require

Origin = Literal[
    "model", "window", "prompt", "output", "document", "prediction", "history", "successor", "grammar", "draft"
]  # fmt: skip
"""The source of a token: the model itself, a source of the n-gram pool, the reply's grammar, the draft model, or a
head in the model's checkpoint."""


@dataclass(frozen=True, slots=True)
class StepTrace:
    """The draft tree of one step, with an entry for each row, and the window as rows of tokens, the oldest first.

    All tokens are ids. A step without drafts has only row 0; the first token, from the prefill, has no rows. The
    window's first token is the current token; without a window `window` is ()."""

    tokens: tuple[int, ...] = ()
    parents: tuple[int, ...] = ()
    origins: tuple[Origin, ...] = ()
    predicted: tuple[int, ...] = ()
    accepted: tuple[int, ...] = ()
    window: tuple[tuple[int, ...], ...] = ()

    def __post_init__(self) -> None:
        rows = len(self.tokens)
        columns = (self.parents, self.origins, self.predicted)
        require(
            all(len(column) == rows for column in columns),
            "each row needs one parent, one origin and one predicted token",
            columns,
        )
        require(all(0 <= row < rows for row in self.accepted), "accepted rows must exist", self.accepted)


NO_TRACE = StepTrace()
"""The trace of a piece that is not a step, and of a step whose trace was dropped."""
TRACED_STEPS = 256
"""The number of newest steps whose traces a reply keeps; the X-ray cannot show earlier steps."""


@dataclass(frozen=True, slots=True)
class Split:
    """The rows of the newest step's draft tree and window, and the step's cost relative to a plain step.

    `cost` is 0 if it is not measured."""

    tree: int = 1
    window: int = 0
    cost: float = 0.0


@dataclass(frozen=True, slots=True)
class Statistics:
    """Running statistics of one reply. The first token, from the prefill, counts in neither `tokens` nor `steps`.

    `hits` are steps in which a draft was accepted, `covered` are steps that had drafts. `cost` is the time of all
    steps in units of a plain step's time, by measured times; 0 if these are unknown."""

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
    cost: float = 0.0

    @property
    def tokens_per_step(self) -> float:
        """Tokens written per forward pass; exactly 1.0 for plain decoding, 0.0 before the first step."""
        return self.tokens / self.steps if self.steps else 0.0

    @property
    def hit_rate(self) -> float:
        """Share of steps in which at least one drafted token was accepted."""
        return self.hits / self.steps if self.steps else 0.0

    @property
    def coverage(self) -> float:
        """Share of steps that had at least one draft."""
        return self.covered / self.steps if self.steps else 0.0

    @property
    def rows_per_step(self) -> float:
        """Mean number of rows (token positions) that a step feeds to the model."""
        return self.rows / self.steps if self.steps else 0.0

    @property
    def speed_up(self) -> float:
        """The estimated speed relative to plain decoding; 0.0 if it is unknown."""
        return self.tokens / self.cost if self.cost else 0.0

    @property
    def plain_seconds(self) -> float:
        """The estimated time of the reply with plain decoding; 0.0 if the speed-up is unknown."""
        return self.seconds * self.speed_up

    @property
    def tokens_per_second(self) -> float:
        """Speed of decoding, without the prefill."""
        return self.tokens / self.seconds if self.seconds else 0.0


@dataclass(frozen=True, slots=True)
class Margin:
    """The two most likely tokens at a position, as text, and the difference of their logits."""

    first: str
    second: str
    margin: float

    def __post_init__(self) -> None:
        require(self.margin >= 0, "the margin must not be negative", self.margin)
