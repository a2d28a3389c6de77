"""Values of races: one prompt, two or three decoders in turn, round after round, and the results.

A model on a server can have a lane beside them: it is measured, and compared with nothing.

    speed-up     a lane's tokens per second over those of the fastest plain decoding in the same round; the median
    identity     a lane's tokens compared with those of plain decoding, padded to the same bucket of rows

Without padding both are the same plain decoding; otherwise the race runs what is missing in addition to its lanes.
"""

from dataclasses import dataclass, field
from typing import Literal

from app.values.messages import Decoding, Message, ModelChoice, ModelInfo, Options
from app.values.race_runs import FASTER, ONE_TOKEN, LaneRun, RemoteRun, Spread, lane_name
from app.values.trace import Margin
from app.values.validation import require, require_one_of

TextKind = Literal["chat", "code", "maths", "quoting", "own"]
"""What kind of text a race's prompt asks for."""
FEWEST_LANES, MOST_LANES = 2, 3
SLOW_START = 1.5
"""The ratio of a server's median speed to its first from which on the first is told, too."""
LONGEST_PROMPT = 200_000
"""Most characters of a race's prompt."""


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
    """The prompt and the lanes of a race. Sampling, length and same text are those of `options`.

    `remote` are models on servers that get the same prompt: none or one."""

    prompt: RacePrompt
    lanes: tuple[Decoding, ...]
    options: Options
    model: ModelChoice
    remote: tuple[ModelChoice, ...] = ()

    def __post_init__(self) -> None:
        names = [lane_name(lane) for lane in self.lanes]
        require(FEWEST_LANES <= len(names) <= MOST_LANES, "a race has two or three lanes", len(names))
        require(len(set(names)) == len(names), "the lanes must be different ones", ", ".join(names))
        require(len(self.remote) <= 1, "a race has at most one remote lane", len(self.remote))
        require(all(one.server for one in self.remote), "a remote lane needs a server", self.remote)
        length = len(self.prompt.text)
        require(
            length <= LONGEST_PROMPT, f"a race's prompt has at most {LONGEST_PROMPT:,} characters", length
        )

    @property
    def messages(self) -> tuple[Message, ...]:
        """The prompt as a chat."""
        return (Message("user", self.prompt.text),)

    @property
    def same_text(self) -> bool:
        """Whether lanes must write the same text in half precision, too."""
        return self.options.decoding.same_text


@dataclass(frozen=True, slots=True)
class Difference:
    """The first token at which a lane and plain differ, counted from 0; `margin` if it is known."""

    index: int
    said: str
    plain_said: str
    margin: Margin | None = None


@dataclass(frozen=True, slots=True)
class LaneResult:
    """A finished lane. `speeds` are its tokens per second in each round; without a `difference` the text is
    identical in each. `run` is the round that differs, or else the one with the median speed."""

    run: LaneRun
    speeds: tuple[float, ...] = ()
    speed_up: Spread = field(default_factory=Spread)
    difference: Difference | None = None

    @property
    def speed(self) -> Spread:
        """Tokens per second."""
        return Spread.of(self.speeds)

    def speed_over(self, other: "LaneResult") -> Spread:
        """Its speed relative to another lane's, round by round."""
        pairs = zip(self.speeds, other.speeds, strict=True)
        return Spread.of(ours / theirs if theirs else 0.0 for ours, theirs in pairs)

    @property
    def is_identical(self) -> bool:
        """Whether its text is that of plain."""
        return self.difference is None


@dataclass(frozen=True, slots=True)
class RemoteResult:
    """A finished remote lane. `speeds` and `waits` are tokens per second and seconds to the first token of its
    complete runs, `run` is the one of median speed, if there is one; `failure` is the sentence that ended it."""

    run: RemoteRun
    speeds: tuple[float, ...] = ()
    waits: tuple[float, ...] = ()
    failure: str = ""

    @property
    def speed(self) -> Spread:
        """Tokens per second."""
        return Spread.of(self.speeds)

    @property
    def starts_slowly(self) -> bool:
        """Whether later rounds were much faster than the first: a server may draft from its earlier replies."""
        return len(self.speeds) > 1 and self.speed.median > SLOW_START * self.speeds[0]

    @property
    def wait(self) -> Spread:
        """Seconds to the first token."""
        return Spread.of(self.waits)


@dataclass(frozen=True, slots=True)
class RaceResult:
    """A finished race. Speed-ups are measured against `fastest_plain`; leader and winner are among `lanes`."""

    plan: RacePlan
    model: ModelInfo
    lanes: tuple[LaneResult, ...]
    fastest_plain: LaneRun
    machine: str = ""
    app: str = ""
    at: float = 0.0
    remote: tuple[RemoteResult, ...] = ()

    @property
    def leader(self) -> LaneResult:
        """The lane with the most tokens per second."""
        return max(self.lanes, key=lambda lane: lane.speed.median)

    @property
    def winner(self) -> LaneResult | None:
        """The leader, if it is faster than every other lane; None where that is too close to call.

        A decoder that drafts wins by more than one token per step, or not at all."""
        leader = self.leader
        if leader.run.decoding.decoder != "plain" and leader.run.writes_one_token:
            return None
        others = (lane for lane in self.lanes if lane is not leader)
        return leader if all(leader.speed_over(other).is_faster for other in others) else None


@dataclass(frozen=True, slots=True)
class LaneSummary:
    """The numbers of a lane of an earlier race. A remote one has its server's name, and counts pieces where the
    server told no number of tokens."""

    name: str
    speed_up: float
    tokens_per_second: float
    tokens_per_step: float
    is_identical: bool
    server: str = ""
    counts_pieces: bool = False


@dataclass(frozen=True, slots=True)
class RaceSummary:
    """An earlier race in the history; `at` in seconds since 1970."""

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
        """Whether it is faster than plain decoding, and by more than one token per step."""
        return self.speed_up >= FASTER and self.tokens_per_step >= ONE_TOKEN
