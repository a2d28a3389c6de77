"""How the numbers and the verdicts of a race are written."""

from app.values.messages import Sampling
from app.values.race import Difference, LaneResult, TextKind
from app.values.race_runs import Spread

KINDS: dict[TextKind, str] = {
    "chat": "Chat",
    "code": "Code",
    "maths": "Maths",
    "quoting": "Quoting",
    "own": "Own text",
}
UNKNOWN = "—"
ROUNDING = 0.1
"""Scores that are closer than this may change places by rounding."""


def title(name: str) -> str:
    """A lane's name as a title: "Lookahead 5/4/5"."""
    return name[:1].upper() + name[1:]


def times(speed_up: float) -> str:
    """ "1.74x"."""
    return f"{speed_up:.2f}x" if speed_up else UNKNOWN


def between(speed_up: Spread) -> str:
    """The lowest and the highest speed-up of the rounds: "1.70x to 1.81x"."""
    return f"{times(speed_up.low)} to {times(speed_up.high)}"


def rate(tokens_per_second: float) -> str:
    """Tokens per second: "41.3", "412", "1,203"."""
    if not tokens_per_second:
        return UNKNOWN
    return f"{tokens_per_second:,.0f}" if tokens_per_second >= 99.95 else f"{tokens_per_second:.1f}"


def between_rates(speed: Spread) -> str:
    """The lowest and the highest speed of the rounds: "41.3 to 44.0"."""
    return f"{rate(speed.low)} to {rate(speed.high)}"


def seconds(value: float) -> str:
    """A duration: "84 ms", "1.24 s", "63.0 s"."""
    if value < 1:
        return f"{value * 1000:.0f} ms"
    return f"{value:.2f} s" if value < 10 else f"{value:.1f} s"


def clock(value: float) -> str:
    """The time of the race's clock, always with two digits: "0.31 s"."""
    return f"{value:.2f} s"


def badge_words(lane: LaneResult) -> str:
    """ "identical text", or where the texts differ and by which margin."""
    difference = lane.difference
    if difference is None:
        return "identical text"
    words = f"differs at token {difference.index + 1:,}"
    return f"{words}: margin {difference.margin.margin:.2f}" if difference.margin else words


def difference_words(difference: Difference, sampling: Sampling) -> str:
    """What was written where the texts differ, and how close the model's scores were."""
    lane, plain = _quoted(difference.said), _quoted(difference.plain_said)
    texts = f"This lane wrote {lane} where plain decoding wrote {plain}."
    margin = difference.margin
    if margin is None:
        return texts
    scores = f"The model's two highest scores were {_quoted(margin.first)} and {_quoted(margin.second)}"
    return f"{texts} {scores}, {margin.margin:.3f} apart{_explanation(margin.margin, sampling)}."


def _explanation(margin: float, sampling: Sampling) -> str:
    """Whether rounding explains the difference. With sampling or a penalty the margin alone does not tell."""
    if sampling.temperature or sampling.repetition_penalty != 1:
        return " before sampling"
    return ": close enough for rounding to decide" if margin < ROUNDING else ": more than rounding explains"


def _quoted(token: str) -> str:
    return f"“{token}”" if token else "nothing more"
