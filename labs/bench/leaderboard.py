"""Writes a benchmark in the layout of Spec-Bench's leaderboard: each category's speed relative to plain decoding.

Speeds are medians over the replies of a category. The last columns are tokens per step and speed, averaged over the
categories, and whether (or how often) the text equals plain decoding's. Published rows of other projects come last,
and name their hardware.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

from app.commands.bench_measurement import LaneNumbers, SetResults, means

SPEC_BENCH = {
    "mt-bench": "Multi-turn Conversation",
    "translation": "Translation",
    "summarization": "Summarization",
    "qa": "Question Answering",
    "math_reasoning": "Mathematical Reasoning",
    "rag": "Retrieval-aug. Generation",
}
"""The six categories of Spec-Bench, and their names on its leaderboard."""


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the leaderboard; a speed of 0 is unknown."""

    name: str
    speeds: tuple[float, ...]
    tokens_per_step: float
    overall: float
    identical: str = "-"


PUBLISHED = (
    Row("LADE, Vicuna-7B on an A100 (published)", (1.40, 1.14, 1.19, 1.24, 1.55, 1.09), 1.66, 1.27),
    Row("LADE, Vicuna-7B on a 3090 (published)", (1.13, 0.97, 1.05, 1.07, 1.29, 0.98), 1.65, 1.08),
    Row("PLD, Vicuna-7B on an A100 (published)", (1.64, 1.04, 2.43, 1.14, 1.61, 1.71), 1.73, 1.59),
)
"""Rows of Spec-Bench's Leaderboard.md (commit 09244ff): greedy, FP16, batches of one; not measured here."""


@dataclass(frozen=True, slots=True)
class Leaderboard:
    """The headings of the categories, the measured rows, fastest first, and the published rows."""

    categories: tuple[str, ...]
    measured: tuple[Row, ...]
    published: tuple[Row, ...] = ()

    @classmethod
    def of(cls, sets: Sequence[SetResults]) -> "Leaderboard":
        """Make the leaderboard of these results, with the published rows if the categories are Spec-Bench's."""
        names = [one.name for one in sets]
        columns = zip(*(one.results for one in sets), strict=True)
        rows = [_row(column, mean) for column, mean in zip(columns, means(sets), strict=True)]
        return cls(
            tuple(SPEC_BENCH.get(name, name) for name in names),
            tuple(sorted(rows, key=lambda row: -row.overall)),
            PUBLISHED if names == list(SPEC_BENCH) else (),
        )

    def markdown(self) -> str:
        head = ("Models", *self.categories, "#Mean Accepted Tokens", "Overall", "Same text")
        lines = [head, ("---", *("---:" for _ in head[1:]))]
        lines += [_cells(row) for row in (*self.measured, *self.published)]
        return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def _row(column: Sequence[LaneNumbers], mean: LaneNumbers) -> Row:
    speeds = tuple(one.speed_vs_plain or 0.0 for one in column)
    share = "yes" if mean.identical else f"{mean.same_text:.0%}"
    return Row(mean.decoder, speeds, mean.tokens_per_step, mean.speed_vs_plain or 0.0, share)


def _cells(row: Row) -> tuple[str, ...]:
    speeds = (f"{speed:.2f}x" if speed else "-" for speed in (*row.speeds, row.overall))
    *categories, overall = speeds
    name = row.name.replace("|", "\\|")
    return (name, *categories, f"{row.tokens_per_step:.2f}", overall, row.identical)


WIDTH, LEFT, TOP, RIGHT = 900, 210, 44, 70
BAR, GAP = 18, 14
"""Pixels of a bar, and between two groups of bars."""
COLOURS = ("#0f766e", "#b45309", "#6d28d9", "#1d4ed8", "#be123c", "#4d7c0f", "#475569")


def picture(board: Leaderboard, title: str) -> str:
    """Return an SVG picture of the measured rows. Published rows ran on other machines and are left out."""
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
    yield f'<text x="{LEFT - 12}" y="{top + len(speeds) * BAR / 2 + 2:g}" text-anchor="end">{escape(name)}</text>'
    for place, speed in enumerate(speeds):
        y, length = top + place * BAR, speed * scale
        yield (
            f'<rect x="{LEFT}" y="{y}" width="{length:.1f}" height="{BAR - 5}" fill="{_colour(place)}"/>'
            f'<text x="{LEFT + length + 6:.1f}" y="{y + 11}">{speed:.2f}x</text>'
        )


def _legend(rows: Sequence[Row], top: int) -> Iterator[str]:
    for place, row in enumerate(rows):
        y = top + 22 * place
        yield (
            f'<rect x="{LEFT}" y="{y}" width="13" height="13" fill="{_colour(place)}"/>'
            f'<text x="{LEFT + 22}" y="{y + 11}">{escape(row.name)}, '
            f"{row.tokens_per_step:.2f} tokens per step</text>"
        )


def _colour(place: int) -> str:
    return COLOURS[place % len(COLOURS)]
