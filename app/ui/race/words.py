"""How a race's numbers and names are written, on the page and in the picture."""

from app.messages import Sampling
from app.race_messages import Difference, LaneResult, TextKind

KINDS: dict[TextKind, str] = {
    "chat": "Chat",
    "code": "Code",
    "maths": "Maths",
    "quoting": "Quoting",
    "own": "Own text",
}
UNKNOWN = "—"
NEAR = 0.1
"""Scores closer than this may come out either way by rounding alone."""


def title(name: str) -> str:
    """A lane's name at the head of its line: "Lookahead 5/4/5"."""
    return name[:1].upper() + name[1:]


def times(speed_up: float) -> str:
    """ "1.74x"."""
    return f"{speed_up:.2f}x" if speed_up else UNKNOWN


def rate(tokens_per_second: float) -> str:
    """Tokens per second: "41.3", "412", "1,203"."""
    if not tokens_per_second:
        return UNKNOWN
    return f"{tokens_per_second:,.0f}" if tokens_per_second >= 99.95 else f"{tokens_per_second:.1f}"


def seconds(value: float) -> str:
    """A duration: "84 ms", "1.24 s", "63.0 s"."""
    if value < 1:
        return f"{value * 1000:.0f} ms"
    return f"{value:.2f} s" if value < 10 else f"{value:.1f} s"


def clock(value: float) -> str:
    """The race's clock, always of the same form: "0.31 s"."""
    return f"{value:.2f} s"


def badge_words(lane: LaneResult) -> str:
    """ "identical text", or where it differs and how close that was."""
    difference = lane.difference
    if difference is None:
        return "identical text"
    words = f"differs at token {difference.index + 1:,}"
    return f"{words}: margin {difference.margin.margin:.2f}" if difference.margin else words


def difference_words(difference: Difference, sampling: Sampling) -> str:
    """What was said where lane and plain part, and how close the model's decision was."""
    said = f"This lane said {_quoted(difference.said)} where plain said {_quoted(difference.plain_said)}."
    margin = difference.margin
    if margin is None:
        return said
    ranked = f"The model's best two were {_quoted(margin.first)} and {_quoted(margin.second)}"
    return f"{said} {ranked}, {margin.margin:.3f} apart{_judged(margin.margin, sampling)}."


def _judged(margin: float, sampling: Sampling) -> str:
    """What the margin explains; drawn and penalised tokens are not decided by it alone."""
    if sampling.temperature or sampling.repetition_penalty != 1:
        return " before the draw"
    return ": close enough for rounding to decide" if margin < NEAR else ": more than rounding explains"


def _quoted(token: str) -> str:
    return f"“{token}”" if token else "nothing more"
