"""The leaderboard as a picture (SVG): bars of speed against plain, a group for each category, then their mean."""

from collections.abc import Iterator, Sequence
from html import escape

from app.commands.leaderboard import Leaderboard, Row

WIDTH, LEFT, TOP, RIGHT = 900, 210, 44, 70
BAR, GAP = 18, 14
"""Pixels for a bar, and between two groups of them."""
COLOURS = ("#0f766e", "#b45309", "#6d28d9", "#1d4ed8", "#be123c", "#4d7c0f", "#475569")


def picture(board: Leaderboard, title: str) -> str:
    """The measured rows; what others published ran on other machines."""
    rows = board.measured
    groups = [(name, [row.speeds[place] for row in rows]) for place, name in enumerate(board.categories)]
    groups.append(("Overall", [row.overall for row in rows]))
    most = max((speed for _, speeds in groups for speed in speeds), default=0.0)
    scale = (WIDTH - LEFT - RIGHT) / max(most, 1.0)
    step = len(rows) * BAR + GAP
    legend = TOP + len(groups) * step
    height = legend + len(rows) * 22 + GAP
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" '
        'font-size="12">',
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
        f'<text x="16" y="24" font-size="15">{escape(title)}</text>',
        f'<line x1="{LEFT + scale:.1f}" x2="{LEFT + scale:.1f}" y1="{TOP - 8}" y2="{legend - GAP}" '
        'stroke="#9ca3af" stroke-dasharray="3 3"/>',
        *(
            line
            for place, group in enumerate(groups)
            for line in _group(*group, top=TOP + place * step, scale=scale)
        ),
        *_legend(rows, legend),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _group(name: str, speeds: Sequence[float], top: int, scale: float) -> Iterator[str]:
    """A category's bars with their numbers."""
    yield f'<text x="{LEFT - 12}" y="{top + len(speeds) * BAR / 2 + 2:g}" text-anchor="end">{escape(name)}</text>'
    for place, speed in enumerate(speeds):
        y, length = top + place * BAR, speed * scale
        yield (
            f'<rect x="{LEFT}" y="{y}" width="{length:.1f}" height="{BAR - 5}" fill="{_colour(place)}"/>'
            f'<text x="{LEFT + length + 6:.1f}" y="{y + 11}">{speed:.2f}x</text>'
        )


def _legend(rows: Sequence[Row], top: int) -> Iterator[str]:
    """Which colour is whose."""
    for place, row in enumerate(rows):
        y = top + 22 * place
        yield (
            f'<rect x="{LEFT}" y="{y}" width="13" height="13" fill="{_colour(place)}"/>'
            f'<text x="{LEFT + 22}" y="{y + 11}">{escape(row.name)}, '
            f"{row.tokens_per_step:.2f} tokens per step</text>"
        )


def _colour(place: int) -> str:
    return COLOURS[place % len(COLOURS)]
