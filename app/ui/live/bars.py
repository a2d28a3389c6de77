"""Two distributions over all steps of a reply: how many tokens a step wrote, and who proposed the tokens."""

from app.ui.live.origins import ABOUT, ORIGINS
from app.ui.live.trail import LONGEST, Trail

COLUMN, BAR, FLOOR, TALLEST = 39, 25, 58, 42
"""Sizes of the columns in their own units: the largest is TALLEST high, and all stand on FLOOR."""


def lengths(trail: Trail) -> str:
    """How many tokens a step wrote, as columns: 1, 2, 3, …"""
    steps, most = sum(trail.lengths), max(*trail.lengths, 1)
    columns = "".join(
        _column(place, TALLEST * count / most, f"{count / steps:.0%}" if count else "")
        for place, count in enumerate(trail.lengths)
    )
    return (
        '<p class="legend-title">Tokens written in one step, share of steps</p>'
        f'<svg class="lengths" viewBox="0 0 {LONGEST * COLUMN} {FLOOR + 14}" role="img" '
        f'aria-label="{_lengths_in_words(trail, steps)}">{columns}</svg>'
    )


def _column(place: int, height: float, share: str) -> str:
    kind, middle = "drafted" if place else "plain", place * COLUMN + COLUMN / 2
    height = max(round(height, 1), 1)
    return (
        f'<rect class="{kind}" x="{middle - BAR / 2:g}" y="{FLOOR - height:g}" width="{BAR}" height="{height:g}"/>'
        f'<text x="{middle:g}" y="{FLOOR - height - 4:g}">{share}</text>'
        f'<text x="{middle:g}" y="{FLOOR + 12}">{_length(place)}</text>'
    )


def _length(place: int) -> str:
    return f"{place + 1}+" if place + 1 == LONGEST else str(place + 1)


def _lengths_in_words(trail: Trail, steps: int) -> str:
    if not steps:
        return "No steps yet"
    shares = (f"{_length(place)}: {count / steps:.0%}" for place, count in enumerate(trail.lengths) if count)
    return f"Tokens written in one step: {', '.join(shares)}"


def sources(trail: Trail) -> str:
    """Who proposed the tokens that were written, with counts; the colours' legend at the same time."""
    tokens = sum(trail.written) or 1
    rows = "".join(
        f'{start}<i style="--share:{count / tokens:.3f}"></i><b>{count:,}</b><em>{count / tokens:.0%}</em></li>'
        if count
        else f'{start}<i style="--share:0"></i><b class="none">0</b><em></em></li>'
        for start, count in zip(_SOURCES, trail.written, strict=True)
    )
    return f'<p class="legend-title">Tokens by who proposed them</p><ul class="sources">{rows}</ul>'


_SOURCES = tuple(
    f'<li class="{origin}" title="{ABOUT[origin]}"><span>{word}</span>' for origin, word in ORIGINS.items()
)
