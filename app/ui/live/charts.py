"""Draws the charts of the live numbers as SVG. They are drawn up to 12 times a second on the processor that the
engine also uses, so drawing only formats numbers and joins strings."""

from collections.abc import Sequence
from itertools import groupby
from math import ceil
from operator import add

from markupsafe import Markup

from app.ui.live.step_history import CHART_STEPS, LONGEST, MEAN_STEPS, STRIP_STEPS, Mean, StepHistory
from app.ui.live.tokens import ORIGINS

STEP = 2
"""The width of one step, in the chart's units."""
WIDTH = CHART_STEPS * STEP
LEAST_STEPS = 24
"""A chart of this many steps or more fills its width."""
TOP, BOTTOM = 14, 66
"""The y of a curve's top and bottom."""

_Y = tuple(f"{half / 2:g}" for half in range(2 * BOTTOM + 1))
_X = tuple(f" {step * STEP}," for step in range(CHART_STEPS))


def token_chart(means: Sequence[Mean]) -> Markup:
    """Draw the moving average of tokens per step as an area above the line of plain decoding, which writes one.
    `means` has at most CHART_STEPS points."""
    top = max(2, ceil(max(tokens for tokens, _ in means)))
    curve = _curve([(tokens - 1) / (top - 1) for tokens, _ in means])
    title = f"Tokens per step, each point the mean of {MEAN_STEPS} steps"
    return _chart(title, curve, f"{top} tokens per step", "1 token: without lookahead")


def hit_chart(means: Sequence[Mean]) -> Markup:
    """Draw the moving average of the share of steps with a hit as an area."""
    title = f"Share of steps with a right guess, each point the mean of {MEAN_STEPS} steps"
    return _chart(title, _curve([share for _, share in means]), "100%", "0%")


def _chart(title: str, curve: str, top: str, bottom: str) -> Markup:
    return Markup(
        f'<svg class="chart" viewBox="0 0 {WIDTH} {BOTTOM + 14}" role="img" aria-label="{title}">{curve}{_GRID}'
        f'<text x="0" y="{TOP - 4}">{top}</text><text x="0" y="{BOTTOM + 12}">{bottom}</text></svg>'
    )


def _curve(shares: Sequence[float]) -> str:
    """Return a line from the bottom through these shares of the height and back to the bottom."""
    # Heights are rounded to half units, so that _Y has all their strings.
    heights = (_Y[int(2 * (BOTTOM - share * (BOTTOM - TOP)) + 0.5)] for share in shares)
    points = "".join(map(add, _X, heights))
    width = CHART_STEPS / max(len(shares), LEAST_STEPS)
    line = f'<polyline points="0,{BOTTOM}{points} {(len(shares) - 1) * STEP},{BOTTOM}"/>'
    return f'<g transform="scale({width:.3g},1)">{line}</g>'


_GRID = "".join(
    f'<line class="{name}" x1="0" x2="{WIDTH}" y1="{y}" y2="{y}"/>'
    for name, y in (("rule", TOP), ("plain", BOTTOM))
)


BAR, GAP, TOKEN, BARS_HEIGHT = 4, 2, 8, 56
"""Sizes in the picture's own units: the width of a bar, the gap between bars, the height of a token's box, and the
picture's height. The boxes are lower if the longest step would not fit."""

BARS_WIDTH = STRIP_STEPS * (BAR + GAP)


def step_bars(history: StepHistory) -> Markup:
    """Draw a bar for each of the newest steps and a box for each token, coloured by its origin. All boxes of a
    colour are one path of dashed lines, which keeps the HTML small."""
    longest = max(map(len, history.origins), default=1)
    token = min(TOKEN, BARS_HEIGHT / longest)
    runs: dict[str, list[str]] = {origin: [] for origin in ORIGINS}
    for index, step in enumerate(history.origins):
        x, below = index * (BAR + GAP) + BAR // 2, 0
        # Each run of tokens of one origin is a vertical line; the lines are drawn from the bottom up.
        for origin, run in groupby(step):
            length = len(tuple(run))
            runs[origin].append(f"M{x} {BARS_HEIGHT - below * token:.4g}v{-length * token:.4g}")
            below += length
    dashes = f'stroke-width="{BAR}" stroke-dasharray="{token - 1:.4g} 1"'
    paths = "".join(
        f'<path class="{origin}" {dashes} d="{"".join(parts)}"/>' for origin, parts in runs.items() if parts
    )
    return Markup(
        f'<svg class="step-bars" viewBox="0 0 {BARS_WIDTH} {BARS_HEIGHT}" role="img" preserveAspectRatio="none" '
        f'aria-label="Tokens of the last {len(history.origins)} steps">'
        f'<line x1="0" x2="{BARS_WIDTH}" y1="{BARS_HEIGHT}" y2="{BARS_HEIGHT}"/>{paths}</svg>'
    )


COLUMN, COLUMN_BAR, FLOOR, TALLEST = 39, 25, 58, 42
"""Sizes of the histogram in its own units: the largest column is TALLEST high, and all columns begin at FLOOR."""


def length_histogram(history: StepHistory) -> Markup:
    """Draw the share of steps that wrote 1, 2, 3, … tokens, as columns."""
    steps, most = sum(history.lengths), max(*history.lengths, 1)
    shares = (f"{_length(at)}: {count / steps:.0%}" for at, count in enumerate(history.lengths) if count)
    label = f"Tokens written in one step: {', '.join(shares)}" if steps else "No steps yet"
    columns = "".join(
        _column(index, TALLEST * count / most, f"{count / steps:.0%}" if count else "")
        for index, count in enumerate(history.lengths)
    )
    return Markup(
        f'<svg class="lengths" viewBox="0 0 {LONGEST * COLUMN} {FLOOR + 14}" role="img" '
        f'aria-label="{label}">{columns}</svg>'
    )


def _column(index: int, height: float, share: str) -> str:
    kind, middle = "drafted" if index else "plain", index * COLUMN + COLUMN / 2
    height = max(round(height, 1), 1)
    return (
        f'<rect class="{kind}" x="{middle - COLUMN_BAR / 2:g}" y="{FLOOR - height:g}" '
        f'width="{COLUMN_BAR}" height="{height:g}"/>'
        f'<text x="{middle:g}" y="{FLOOR - height - 4:g}">{share}</text>'
        f'<text x="{middle:g}" y="{FLOOR + 12}">{_length(index)}</text>'
    )


def _length(index: int) -> str:
    return f"{index + 1}+" if index + 1 == LONGEST else str(index + 1)
