"""The strip: a bar per recent step, a box per token, coloured by who proposed it.

Boxes of one colour are one path, a run of them one dashed line of it: a whole strip takes less than 2 KB.
"""

from collections.abc import Iterator
from itertools import groupby

from app.ui.live.origins import ORIGINS
from app.ui.live.trail import STRIP_STEPS, Step, Trail

BAR, GAP, TOKEN, HEIGHT = 4, 2, 8, 56
"""Sizes in the strip's own units; a token is lower where a long step needs the room."""

WIDTH = STRIP_STEPS * (BAR + GAP)


def strip(trail: Trail) -> str:
    """The strip as SVG."""
    longest = max(map(len, trail.steps), default=1)
    token = min(TOKEN, HEIGHT / longest)
    runs: dict[str, list[str]] = {origin: [] for origin in ORIGINS}
    for index, step in enumerate(trail.steps):
        for origin, run in _runs(index * (BAR + GAP) + BAR // 2, step, token):
            runs[origin].append(run)
    dashes = f'stroke-width="{BAR}" stroke-dasharray="{token - 1:.4g} 1"'
    paths = "".join(
        f'<path class="{origin}" {dashes} d="{"".join(parts)}"/>' for origin, parts in runs.items() if parts
    )
    return (
        f'<svg class="strip" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" preserveAspectRatio="none" '
        f'aria-label="Tokens of the last {len(trail.steps)} steps">'
        f'<line x1="0" x2="{WIDTH}" y1="{HEIGHT}" y2="{HEIGHT}"/>{paths}</svg>'
    )


def _runs(x: int, step: Step, token: float) -> Iterator[tuple[str, str]]:
    """Tokens of one origin that follow each other, as a line upwards."""
    below = 0
    for origin, run in groupby(step):
        length = len(tuple(run))
        yield origin, f"M{x} {HEIGHT - below * token:.4g}v{-length * token:.4g}"
        below += length
