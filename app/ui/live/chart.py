"""The moving chart: tokens per step above plain decoding's 1.0, and below it the share of hits."""

from collections.abc import Iterable
from math import ceil
from operator import add

from app.ui.live.trail import CHART_STEPS, MEAN_STEPS, Trail

STEP = 2
"""How far one step moves the lines, in the chart's units; the labels stand to their right."""
WIDTH, HEIGHT = CHART_STEPS * STEP + 72, 104
TOP, PLAIN = 8, 58
"""Where the scale of tokens per step ends and begins: plain decoding is its bottom."""
ALL, NONE = 74, 100
"""The same for hits: every step, no step."""
LABEL = 5
"""Where a label stands behind its line's end."""

_Y = tuple(f"{half / 2:g}" for half in range(2 * HEIGHT + 1))
_X = tuple(f"{step * STEP}," for step in range(CHART_STEPS))


def chart(trail: Trail) -> str:
    """The chart as SVG; its lines stand at the left until there are CHART_STEPS steps."""
    top = max(2, ceil(max((tokens for tokens, _ in trail.means), default=2.0)))
    per_token = (PLAIN - TOP) / (top - 1)
    tokens = [_half(PLAIN - (mean - 1) * per_token) for mean, _ in trail.means]
    hits = [_half(NONE - share * (NONE - ALL)) for _, share in trail.means]
    lines = f"{_line('tokens', tokens)}{_line('hits', hits)}{_labels(trail, tokens, hits)}"
    return (
        f'<svg class="chart" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="Tokens per step and hit rate '
        f'of the last {len(trail.means)} steps">{_TITLE}{_GRID}<text x="0" y="{TOP - 4}">{top}</text>{lines}</svg>'
    )


def _half(height: float) -> int:
    """A height in half units: so few that they are kept as text, and drawing 240 points takes no formatting."""
    return int(2 * height + 0.5)


def _line(name: str, heights: Iterable[int]) -> str:
    points = " ".join(map(add, _X, map(_Y.__getitem__, heights)))
    return f'<polyline class="{name}" points="{points}"/>'


def _labels(trail: Trail, tokens: list[int], hits: list[int]) -> str:
    """The newest values where the lines end."""
    if not trail.means:
        return ""
    mean, share = trail.means[-1]
    x = (len(tokens) - 1) * STEP + LABEL
    # In digits of one width: what moves is the value, not the words behind it.
    return (
        f'<text class="tokens" x="{x}" y="{tokens[-1] / 2 + 4:g}"><tspan>{mean:.1f}</tspan> tokens</text>'
        f'<text class="hits" x="{x}" y="{hits[-1] / 2 + 4:g}"><tspan>{share:.0%}</tspan> hits</text>'
    )


def _grid() -> str:
    end = (CHART_STEPS - 1) * STEP
    lines = "".join(
        f'<line class="{name}" x1="0" x2="{end}" y1="{y}" y2="{y}"/>'
        for name, y in (("rule", TOP), ("plain", PLAIN), ("rule", ALL), ("rule", NONE))
    )
    return f'{lines}<text x="0" y="{PLAIN + 10}">1.0 plain</text>'


_GRID = _grid()
_TITLE = f"<title>Tokens per step and share of steps with a hit, as means over {MEAN_STEPS} steps</title>"
