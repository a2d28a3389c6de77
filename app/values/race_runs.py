"""What the lanes of a race have written: runs on this machine, and those of a model on a server."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from statistics import median

from app.values.messages import DecoderName, Decoding, ModelChoice, Statistics, StopReason
from app.values.validation import require

LaneChoice = Decoding | ModelChoice
"""What runs in a lane: a decoder on the race's own model, or the model of a server."""
FASTER = 1.02
"""The ratio of two speeds from which on one counts as faster; less is noise."""
ONE_TOKEN = 1.005
"""Tokens per step below which they are written as 1.00: that is no more than plain decoding."""


def lane_name(lane: LaneChoice) -> str:
    """The display name of a lane: "plain", "auto 32 rows", "lookahead 5/4/5", "remote: org/model"."""
    if isinstance(lane, ModelChoice):
        return f"remote: {lane.name}"
    match lane.decoder:
        case "lookahead":
            return f"lookahead {lane.window}/{lane.ngram}/{lane.guesses}"
        case "jacobi":
            return f"jacobi {lane.window}"
        case "auto" if lane.rows:
            return f"auto {lane.rows} rows"
        case "prompt-lookup":
            return "prompt lookup"
    return lane.decoder


@dataclass(frozen=True, slots=True)
class Spread:
    """A number that was measured in several rounds; all 0 where it is unknown."""

    median: float = 0.0
    low: float = 0.0
    high: float = 0.0

    def __post_init__(self) -> None:
        ordered = 0 <= self.low <= self.median <= self.high
        require(ordered, "the median must be between low and high", (self.low, self.median, self.high))

    @classmethod
    def of(cls, values: Iterable[float]) -> "Spread":
        """The spread of these values; unknown ones (0) are left out."""
        known = [value for value in values if value]
        return cls(median(known), min(known), max(known)) if known else cls()

    @property
    def is_faster(self) -> bool:
        """Whether this ratio of two speeds is above 1 by more than it differs from round to round."""
        return self.median >= FASTER and self.median * self.low > self.high


Curve = tuple[tuple[float, int], ...]
"""(seconds since the first token, tokens so far) for each step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What has been written so far, and how it grew. `reason` is None until it is complete."""

    statistics: Statistics = field(default_factory=Statistics)
    text: str = ""
    curve: Curve = ()
    reason: StopReason | None = None

    @property
    def tokens(self) -> int:
        """Tokens written, including the first one from the prefill."""
        return self.curve[-1][1] if self.curve else 0

    @property
    def seconds(self) -> float:
        """Seconds from the first token to the last."""
        return self.curve[-1][0] if self.curve else 0.0

    def tokens_at(self, seconds: float) -> int:
        """The number of tokens at this time of the run's own clock."""
        return max((tokens for at, tokens in self.curve if at <= seconds), default=0)


@dataclass(frozen=True, slots=True)
class LaneRun(Run):
    """A run of a decoder on this machine. `ends` are the ends of the tokens in the text.

    `decoder` is the one that really ran: a model without lookahead support decodes plainly."""

    decoding: Decoding
    decoder: DecoderName
    token_ids: tuple[int, ...] = ()
    ends: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        """The lane's display name."""
        return lane_name(self.decoding)

    @property
    def writes_one_token(self) -> bool:
        """Whether it wrote one token per step, as plain decoding does."""
        return self.statistics.tokens_per_step < ONE_TOKEN

    def token_text(self, index: int) -> str:
        """The text of a token; "" after the last one."""
        if index >= len(self.ends):
            return ""
        return self.text[self.ends[index - 1] if index else 0 : self.ends[index]]


@dataclass(frozen=True, slots=True)
class RemoteRun(Run):
    """A run of a model on a server, by the clock of who waits for it. `failure` is the sentence where it failed.

    With `counts_pieces` its tokens are the pieces in which the text came: the server told no number of tokens."""

    model: ModelChoice
    counts_pieces: bool = True
    failure: str = ""

    @property
    def name(self) -> str:
        """The lane's display name."""
        return lane_name(self.model)
