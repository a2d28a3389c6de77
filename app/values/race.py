"""Values of races. In a race two or three decoders (lanes) answer one prompt in turn, round after round.

A lane is compared with plain decoding, which always runs. In half precision, if all lanes must write the same text,
steps are padded to row counts that give bitwise identical results. Plain decoding is then also timed unpadded.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from statistics import median
from typing import Literal

from app.values.messages import DecoderName, Decoding, Message, ModelChoice, ModelInfo, Options, StopReason
from app.values.reply_statistics import Margin, Statistics
from app.values.validation import require, require_one_of

TextKind = Literal["chat", "code", "maths", "quoting", "own"]
FEWEST_LANES, MOST_LANES = 2, 3
LONGEST_PROMPT = 200_000
FASTER = 1.02
"""The smallest ratio of two speeds that counts as faster; smaller ratios are noise."""
ONE_TOKEN = 1.005
"""A lane with fewer tokens per step than this counts as writing one token per step, as plain decoding does."""


@dataclass(frozen=True, slots=True)
class RacePrompt:
    """A prompt for a race, and the kind of text for which it asks."""

    kind: TextKind
    text: str

    def __post_init__(self) -> None:
        require_one_of(TextKind, "kind", self.kind)
        require(bool(self.text.strip()), "a prompt must not be empty", self.text)


def lane_name(lane: Decoding) -> str:
    """Return the display name of a lane: "plain", "auto 32 rows", "lookahead 5/4/5"."""
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
class RacePlan:
    """The prompt and the lanes of a race. `options` has the sampling, the length, and whether all lanes must
    write the same text."""

    prompt: RacePrompt
    lanes: tuple[Decoding, ...]
    options: Options
    model: ModelChoice

    def __post_init__(self) -> None:
        names = [lane_name(lane) for lane in self.lanes]
        require(FEWEST_LANES <= len(names) <= MOST_LANES, "a race has two or three lanes", len(names))
        require(len(set(names)) == len(names), "all lanes must be different", ", ".join(names))
        length = len(self.prompt.text)
        require(
            length <= LONGEST_PROMPT, f"a race's prompt has at most {LONGEST_PROMPT:,} characters", length
        )

    @property
    def messages(self) -> tuple[Message, ...]:
        return (Message("user", self.prompt.text),)

    @property
    def same_text(self) -> bool:
        return self.options.decoding.same_text


@dataclass(frozen=True, slots=True)
class Spread:
    """The median, the lowest and the highest value of a number over several rounds; 0.0 if they are unknown."""

    median: float = 0.0
    low: float = 0.0
    high: float = 0.0

    def __post_init__(self) -> None:
        ordered = 0 <= self.low <= self.median <= self.high
        require(ordered, "the median must be between low and high", (self.low, self.median, self.high))

    @classmethod
    def of(cls, values: Iterable[float]) -> "Spread":
        """Return the spread of these values; unknown values (0) are left out."""
        known = [value for value in values if value]
        return cls(median(known), min(known), max(known)) if known else cls()

    @property
    def is_faster(self) -> bool:
        """Whether this ratio of two speeds is at least FASTER, and above 1 by more than it varies between
        rounds."""
        return self.median >= FASTER and self.median * self.low > self.high


Curve = tuple[tuple[float, int], ...]
"""Pairs (seconds since the first token, tokens so far), one for each step."""


@dataclass(frozen=True, slots=True)
class LaneRun:
    """One run of a decoder so far: its text, its tokens and their times. `reason` is None until it has ended.

    `ends` are the ends of the tokens in the text. `decoder` is the decoder that ran: "plain" for a model that
    does not support lookahead."""

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
        return lane_name(self.decoding)

    @property
    def tokens(self) -> int:
        """The number of tokens written, including the first token from the prefill."""
        return self.curve[-1][1] if self.curve else 0

    @property
    def seconds(self) -> float:
        """Seconds from the first token to the last."""
        return self.curve[-1][0] if self.curve else 0.0

    @property
    def writes_one_token(self) -> bool:
        """Whether the run wrote one token per step, as plain decoding does."""
        return self.statistics.tokens_per_step < ONE_TOKEN

    def tokens_at(self, seconds: float) -> int:
        """Return how many tokens were written this many seconds after the first token."""
        return max((tokens for at, tokens in self.curve if at <= seconds), default=0)

    def around(self, index: int) -> tuple[str, str, str]:
        """Split the text at token `index`: the text before it, its own, and the text after it.

        After the last token the token's own text is ""."""
        start = self.ends[index - 1] if 0 < index <= len(self.ends) else 0
        end = self.ends[index] if index < len(self.ends) else start
        return self.text[:start], self.text[start:end], self.text[end:]


@dataclass(frozen=True, slots=True)
class Difference:
    """The first token at which a lane and plain decoding differ: its index from 0, the lane's token as text
    (`said`), and plain decoding's (`plain_said`). `margin` is None if it is not known."""

    index: int
    said: str
    plain_said: str
    margin: Margin | None = None


@dataclass(frozen=True, slots=True)
class LaneResult:
    """A finished lane. `speeds` are its tokens per second in each round. Without a `difference` its text is
    identical to plain decoding's in each round. `run` is the run that differs, or else the run of median speed."""

    run: LaneRun
    speeds: tuple[float, ...] = ()
    speed_up: Spread = field(default_factory=Spread)
    difference: Difference | None = None

    @property
    def speed(self) -> Spread:
        """The tokens per second of the rounds: median and spread."""
        return Spread.of(self.speeds)

    def speed_over(self, other: "LaneResult") -> Spread:
        """Return the ratio of this lane's speed to another lane's, over all rounds."""
        pairs = zip(self.speeds, other.speeds, strict=True)
        return Spread.of(ours / theirs if theirs else 0.0 for ours, theirs in pairs)

    @property
    def is_identical(self) -> bool:
        """Whether the text is the same as that of plain decoding."""
        return self.difference is None


@dataclass(frozen=True, slots=True)
class RaceResult:
    """A finished race. Speed-ups are relative to `fastest_plain`, which need not be one of `lanes`."""

    plan: RacePlan
    model: ModelInfo
    lanes: tuple[LaneResult, ...]
    fastest_plain: LaneRun
    machine: str = ""
    app: str = ""
    at: float = 0.0

    @property
    def leader(self) -> LaneResult:
        return max(self.lanes, key=lambda lane: lane.speed.median)

    @property
    def winner(self) -> LaneResult | None:
        """The leader, if it is faster than every other lane by more than noise; else None.

        A decoder that drafts can only win if it wrote more than one token per step."""
        leader = self.leader
        if leader.run.decoding.decoder != "plain" and leader.run.writes_one_token:
            return None
        others = (lane for lane in self.lanes if lane is not leader)
        return leader if all(leader.speed_over(other).is_faster for other in others) else None


@dataclass(frozen=True, slots=True)
class LaneSummary:
    """The results of a lane of an earlier race."""

    name: str
    speed_up: float
    tokens_per_second: float
    tokens_per_step: float
    is_identical: bool


@dataclass(frozen=True, slots=True)
class RaceSummary:
    """An earlier race in the history; `at` is in seconds since 1970."""

    at: float
    kind: TextKind
    prompt: str
    lanes: tuple[LaneSummary, ...]


@dataclass(frozen=True, slots=True)
class SpeedByKind:
    """The medians of a lane on a kind of text, over a number of races."""

    kind: TextKind
    lane: str
    speed_up: float
    tokens_per_step: float
    races: int

    @property
    def is_faster(self) -> bool:
        """Whether the lane is faster than plain decoding and writes more than one token per step."""
        return self.speed_up >= FASTER and self.tokens_per_step >= ONE_TOKEN
