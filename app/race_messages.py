"""Values about races: one prompt, two or three decoders in turn, and what came of it.

    speed-up     a lane's tokens per second over those of the fastest plain: one row a step, whatever same text asks
    identity     a lane's tokens against plain of the same width class, token by token

Both plains are one where nothing is padded; else the race runs the missing ones beside its lanes.
"""

from dataclasses import dataclass, field
from typing import Literal

from app.messages import (
    DecoderName,
    Decoding,
    Message,
    ModelChoice,
    ModelInfo,
    Options,
    Statistics,
    StopReason,
)
from app.step_trace import Margin
from app.validation import require, require_one_of

TextKind = Literal["chat", "code", "maths", "quoting", "own"]
"""What kind of text a race's prompt asks for."""
FEWEST_LANES, MOST_LANES = 2, 3
LONGEST_PROMPT = 200_000
"""Characters of a race's prompt: more is no race but a wait."""


def lane_name(decoding: Decoding) -> str:
    """A lane as it is called everywhere: "plain", "auto", "auto 32 rows", "lookahead 5/4/5", "jacobi 8"."""
    match decoding.decoder:
        case "lookahead":
            return f"lookahead {decoding.window}/{decoding.ngram}/{decoding.guesses}"
        case "jacobi":
            return f"jacobi {decoding.window}"
        case "auto" if decoding.rows:
            return f"auto {decoding.rows} rows"
        case "prompt-lookup":
            return "prompt lookup"
    return decoding.decoder


@dataclass(frozen=True, slots=True)
class RacePrompt:
    """A ready-made prompt."""

    kind: TextKind
    text: str

    def __post_init__(self) -> None:
        require_one_of(TextKind, "kind", self.kind)
        require(bool(self.text.strip()), "a prompt must not be empty", self.text)


@dataclass(frozen=True, slots=True)
class RacePlan:
    """What is raced. The lanes' sampling and length are those of `options`, as is whether text must be the same."""

    prompt: RacePrompt
    lanes: tuple[Decoding, ...]
    options: Options
    model: ModelChoice

    def __post_init__(self) -> None:
        names = [lane_name(lane) for lane in self.lanes]
        require(FEWEST_LANES <= len(names) <= MOST_LANES, "a race has two or three lanes", len(names))
        require(len(set(names)) == len(names), "the lanes must be different ones", ", ".join(names))
        length = len(self.prompt.text)
        require(
            length <= LONGEST_PROMPT, f"a race's prompt has at most {LONGEST_PROMPT:,} characters", length
        )

    @property
    def messages(self) -> tuple[Message, ...]:
        """The prompt as the engine is asked."""
        return (Message("user", self.prompt.text),)

    @property
    def same_text(self) -> bool:
        """Whether lanes are to write the same text in half precision, too."""
        return self.options.decoding.same_text


Curve = tuple[tuple[float, int], ...]
"""(seconds since the first token, tokens written by then), a point a step."""


@dataclass(frozen=True, slots=True)
class LaneRun:
    """What one lane wrote so far. `ends` say for each token how much of the text was there once it had come.

    `decoder` is the one that ran: a model that cannot branch decodes plainly whatever was asked."""

    decoding: Decoding
    decoder: DecoderName
    statistics: Statistics = field(default_factory=Statistics)
    text: str = ""
    token_ids: tuple[int, ...] = ()
    ends: tuple[int, ...] = ()
    curve: Curve = ()
    reason: StopReason | None = None

    @property
    def name(self) -> str:
        """What the lane is called."""
        return lane_name(self.decoding)

    @property
    def tokens(self) -> int:
        """Tokens written, the prefill's first one included."""
        return self.curve[-1][1] if self.curve else 0

    @property
    def seconds(self) -> float:
        """Seconds from the first token to the last."""
        return self.curve[-1][0] if self.curve else 0.0

    def tokens_at(self, seconds: float) -> int:
        """How many tokens were there at this time of the lane's own clock."""
        return max((tokens for at, tokens in self.curve if at <= seconds), default=0)

    def token_text(self, index: int) -> str:
        """What a token added to the text; nothing behind the last one."""
        if index >= len(self.ends):
            return ""
        return self.text[self.ends[index - 1] if index else 0 : self.ends[index]]


@dataclass(frozen=True, slots=True)
class Difference:
    """The first token at which a lane and plain part, counted from 0; `margin` where the model was asked."""

    index: int
    said: str
    plain_said: str
    margin: Margin | None = None


@dataclass(frozen=True, slots=True)
class LaneResult:
    """A lane that has run. Speed-up 0 where there is no speed to compare; no difference is identical text."""

    run: LaneRun
    speed_up: float = 0.0
    difference: Difference | None = None

    @property
    def is_identical(self) -> bool:
        """Whether it wrote what plain wrote."""
        return self.difference is None


@dataclass(frozen=True, slots=True)
class RaceResult:
    """A race that was run to its end. `fastest_plain` is what speed-ups are measured against."""

    plan: RacePlan
    model: ModelInfo
    lanes: tuple[LaneResult, ...]
    fastest_plain: LaneRun
    machine: str = ""
    app: str = ""
    at: float = 0.0

    @property
    def winner(self) -> LaneResult:
        """The lane with most tokens per second."""
        return max(self.lanes, key=lambda lane: lane.run.statistics.tokens_per_second)


@dataclass(frozen=True, slots=True)
class LaneSummary:
    """A lane of a race of the past, in numbers alone."""

    name: str
    speed_up: float
    tokens_per_second: float
    tokens_per_step: float
    is_identical: bool


@dataclass(frozen=True, slots=True)
class RaceSummary:
    """A race as the history lists it; `at` in seconds since 1970."""

    at: float
    kind: TextKind
    prompt: str
    lanes: tuple[LaneSummary, ...]


@dataclass(frozen=True, slots=True)
class SpeedByKind:
    """How much a decoder brings on a kind of text: the median speed-up of so many races."""

    kind: TextKind
    lane: str
    speed_up: float
    races: int
