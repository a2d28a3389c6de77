"""The charts of the live numbers as SVG: the moving averages, the newest steps, how long steps were.

They are drawn up to 12 times a second on the processor that the engine also uses, so only numbers are formatted
here.
"""

from collections.abc import Iterable, Iterator
from itertools import groupby
from math import ceil
from operator import add

from markupsafe import Markup

from app.ui.live.step_history import CHART_STEPS, LONGEST, MEAN_STEPS, STRIP_STEPS, StepHistory, StepOrigins
from app.ui.live.tokens import ORIGINS

STEP = 2
"""The width of one step, in the chart's units."""
WIDTH, HEIGHT = CHART_STEPS * STEP + 72, 104
TOP, PLAIN = 8, 58
"""The y of the scale of tokens per step: its top, and its bottom (plain decoding)."""
ALL, NONE = 74, 100
"""The y of the scale of hits: its top (every step has a hit), and its bottom (no step has)."""
LABEL = 5
"""The distance of a label from the end of its line."""

_Y = tuple(f"{half / 2:g}" for half in range(2 * HEIGHT + 1))
_X = tuple(f"{step * STEP}," for step in range(CHART_STEPS))


def average_chart(history: StepHistory) -> Markup:
    """Draw tokens per step above plain decoding's 1.0, and the share of hits below it, as moving averages.

    The lines grow from the left; after CHART_STEPS steps they move to the left."""
    top = max(2, ceil(max((tokens for tokens, _ in history.means), default=2.0)))
    per_token = (PLAIN - TOP) / (top - 1)
    tokens = [_half(PLAIN - (mean - 1) * per_token) for mean, _ in history.means]
    hits = [_half(NONE - share * (NONE - ALL)) for _, share in history.means]
    lines = f"{_line('tokens', tokens)}{_line('hits', hits)}{_labels(history, tokens, hits)}"
    return Markup(
        f'<svg class="chart" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-label="Tokens per step and hit rate of the last {len(history.means)} steps">'
        f'{_TITLE}{_GRID}<text x="0" y="{TOP - 4}">{top}</text>{lines}</svg>'
    )


def _half(height: float) -> int:
    """Return the height in half units. These are few, so that their strings are made once (`_Y`)."""
    return int(2 * height + 0.5)


def _line(name: str, heights: Iterable[int]) -> str:
    points = " ".join(map(add, _X, map(_Y.__getitem__, heights)))
    return f'<polyline class="{name}" points="{points}"/>'


def _labels(history: StepHistory, tokens: list[int], hits: list[int]) -> str:
    """Label the ends of the lines with the newest values."""
    if not history.means:
        return ""
    mean, share = history.means[-1]
    x = (len(tokens) - 1) * STEP + LABEL
    y = min(tokens[-1] / 2 + 4, PLAIN - 4)  # above the line of plain decoding, whose label is below it
    # All digits have the same width, so the words after the value do not move.
    return (
        f'<text class="tokens" x="{x}" y="{y:g}"><tspan>{mean:.1f}</tspan> tokens</text>'
        f'<text class="hits" x="{x}" y="{hits[-1] / 2 + 4:g}"><tspan>{share:.0%}</tspan> hits</text>'
    )


_GRID = "".join(
    f'<line class="{name}" x1="0" x2="{(CHART_STEPS - 1) * STEP}" y1="{y}" y2="{y}"/>'
    for name, y in (("rule", TOP), ("plain", PLAIN), ("rule", ALL), ("rule", NONE))
)
_GRID += f'<text x="0" y="{PLAIN + 10}">1.0 plain</text>'
_TITLE = f"<title>Tokens per step and share of steps with a hit, as means over {MEAN_STEPS} steps</title>"


BAR, GAP, TOKEN, BARS_HEIGHT = 4, 2, 8, 56
"""Sizes of the step bars in their own units; all tokens are drawn lower if the longest step would not fit."""

BARS_WIDTH = STRIP_STEPS * (BAR + GAP)


def step_bars(history: StepHistory) -> Markup:
    """Draw a bar for each of the newest steps and a box for each token, coloured by who proposed it.

    All boxes of one colour are one path, in which each run of boxes is a dashed line, so the HTML is under 2
    KB."""
    longest = max(map(len, history.origins), default=1)
    token = min(TOKEN, BARS_HEIGHT / longest)
    runs: dict[str, list[str]] = {origin: [] for origin in ORIGINS}
    for index, step in enumerate(history.origins):
        for origin, run in _runs(index * (BAR + GAP) + BAR // 2, step, token):
            runs[origin].append(run)
    dashes = f'stroke-width="{BAR}" stroke-dasharray="{token - 1:.4g} 1"'
    paths = "".join(
        f'<path class="{origin}" {dashes} d="{"".join(parts)}"/>' for origin, parts in runs.items() if parts
    )
    return Markup(
        f'<svg class="step-bars" viewBox="0 0 {BARS_WIDTH} {BARS_HEIGHT}" role="img" preserveAspectRatio="none" '
        f'aria-label="Tokens of the last {len(history.origins)} steps">'
        f'<line x1="0" x2="{BARS_WIDTH}" y1="{BARS_HEIGHT}" y2="{BARS_HEIGHT}"/>{paths}</svg>'
    )


def _runs(x: int, step: StepOrigins, token: float) -> Iterator[tuple[str, str]]:
    """Yield each run of tokens of one origin as a vertical line, from the bottom up."""
    below = 0
    for origin, run in groupby(step):
        length = len(tuple(run))
        yield origin, f"M{x} {BARS_HEIGHT - below * token:.4g}v{-length * token:.4g}"
        below += length


COLUMN, COLUMN_BAR, FLOOR, TALLEST = 39, 25, 58, 42
"""Sizes of the histogram in its own units: the largest column is TALLEST high, and all columns begin at FLOOR."""


def length_histogram(history: StepHistory) -> Markup:
    """Draw the share of steps that wrote 1, 2, 3, … tokens, as columns."""
    steps, most = sum(history.lengths), max(*history.lengths, 1)
    columns = "".join(
        _column(place, TALLEST * count / most, f"{count / steps:.0%}" if count else "")
        for place, count in enumerate(history.lengths)
    )
    return Markup(
        f'<svg class="lengths" viewBox="0 0 {LONGEST * COLUMN} {FLOOR + 14}" role="img" '
        f'aria-label="{_lengths_in_words(history, steps)}">{columns}</svg>'
    )


def _column(place: int, height: float, share: str) -> str:
    kind, middle = "drafted" if place else "plain", place * COLUMN + COLUMN / 2
    height = max(round(height, 1), 1)
    return (
        f'<rect class="{kind}" x="{middle - COLUMN_BAR / 2:g}" y="{FLOOR - height:g}" '
        f'width="{COLUMN_BAR}" height="{height:g}"/>'
        f'<text x="{middle:g}" y="{FLOOR - height - 4:g}">{share}</text>'
        f'<text x="{middle:g}" y="{FLOOR + 12}">{_length(place)}</text>'
    )


def _length(place: int) -> str:
    return f"{place + 1}+" if place + 1 == LONGEST else str(place + 1)


def _lengths_in_words(history: StepHistory, steps: int) -> str:
    if not steps:
        return "No steps yet"
    shares = (
        f"{_length(place)}: {count / steps:.0%}" for place, count in enumerate(history.lengths) if count
    )
    return f"Tokens written in one step: {', '.join(shares)}"
