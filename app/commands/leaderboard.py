"""The numbers of a benchmark in the form of Spec-Bench's leaderboard: speed against plain for each category.

Speeds are medians over the replies of a category. The last columns are the means of the categories and whether the
text is that of plain. Rows that others published come last and say what they ran on.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from app.commands.bench_measurement import LaneNumbers, SetResults, means

SPEC_BENCH = {
    "mt-bench": "Multi-turn Conversation",
    "translation": "Translation",
    "summarization": "Summarization",
    "qa": "Question Answering",
    "math_reasoning": "Mathematical Reasoning",
    "rag": "Retrieval-aug. Generation",
}
"""Its six categories, and what its leaderboard calls them."""


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
"""Of Spec-Bench's Leaderboard.md (commit 09244ff): greedy, FP16, batches of one; not measured here."""


@dataclass(frozen=True, slots=True)
class Leaderboard:
    """The headings of the categories, and the rows, fastest first."""

    categories: tuple[str, ...]
    measured: tuple[Row, ...]
    published: tuple[Row, ...] = ()

    @classmethod
    def of(cls, sets: Sequence[SetResults]) -> "Leaderboard":
        """The leaderboard of these results; Spec-Bench's own rows beside its six categories."""
        names = [one.name for one in sets]
        columns = zip(*(one.results for one in sets), strict=True)
        rows = [_row(column, mean) for column, mean in zip(columns, means(sets), strict=True)]
        return cls(
            tuple(SPEC_BENCH.get(name, name) for name in names),
            tuple(sorted(rows, key=lambda row: -row.overall)),
            PUBLISHED if names == list(SPEC_BENCH) else (),
        )

    def markdown(self) -> str:
        """A table in Markdown."""
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
