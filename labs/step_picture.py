"""Draws the curves that `step_times` measured: median milliseconds against rows, both axes logarithmic."""

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import log2
from pathlib import Path
from typing import Any

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 760, 440, 60, 210, 40, 50
COLOURS = {"foresight": "#0f766e", "transformers": "#b45309", "llama.cpp": "#6d28d9"}
DASHES = {"bfloat16": "none", "float32": "6 4"}


@dataclass(frozen=True, slots=True)
class Curve:
    """The median milliseconds of one side by row count, in one dtype."""

    side: str
    dtype: str
    points: tuple[tuple[int, float], ...]

    def __post_init__(self) -> None:
        if not self.points or any(rows < 1 or took <= 0 for rows, took in self.points):
            raise ValueError(f"a curve needs rows and times above 0, got {self.points}")


def curves(found: Sequence[dict[str, Any]]) -> list[Curve]:
    """Return the curves of several measurements, without sides that only take steps of one row."""
    return [
        Curve(side, run["dtype"], tuple((int(rows), times["median"]) for rows, times in by_rows.items()))
        for run in found
        for side, by_rows in run["sides"].items()
        if side in COLOURS
    ]


def picture(title: str, drawn: Sequence[Curve]) -> str:
    scale = Scale.around(drawn)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
        'font-size="13">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<text x="{LEFT}" y="24" font-size="15">{title}</text>',
        *_grid(scale),
        *(line for place, curve in enumerate(drawn) for line in _curve(scale, curve, place)),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


@dataclass(frozen=True, slots=True)
class Scale:
    """The maximum number of rows in the picture, and the range of its milliseconds as exponents of two."""

    most_rows: int
    least: int
    most: int

    @classmethod
    def around(cls, drawn: Sequence[Curve]) -> "Scale":
        """Return the scale in which all points fit."""
        points = [point for curve in drawn for point in curve.points]
        times = [log2(took) for _, took in points]
        return cls(max(rows for rows, _ in points), int(min(times) // 1), int(-(-max(times) // 1)))

    def x(self, rows: int) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * log2(rows) / max(log2(self.most_rows), 1)

    def y(self, took: float) -> float:
        share = (log2(took) - self.least) / max(self.most - self.least, 1)
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * share


def _grid(scale: Scale) -> Iterator[str]:
    right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM
    for exponent in range(int(log2(scale.most_rows)) + 1):
        x = scale.x(2**exponent)
        yield f'<line x1="{x:.1f}" y1="{TOP}" x2="{x:.1f}" y2="{bottom}" stroke="#e5e7eb"/>'
        yield f'<text x="{x:.1f}" y="{bottom + 18}" text-anchor="middle">{2**exponent}</text>'
    for exponent in range(scale.least, scale.most + 1):
        y = scale.y(2.0**exponent)
        yield f'<line x1="{LEFT}" y1="{y:.1f}" x2="{right}" y2="{y:.1f}" stroke="#e5e7eb"/>'
        yield f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{2.0**exponent:g}</text>'
    yield f'<text x="{(LEFT + right) / 2:.0f}" y="{HEIGHT - 12}" text-anchor="middle">rows of the step</text>'
    yield f'<text x="{LEFT - 8}" y="{TOP - 8}" text-anchor="end">ms</text>'


def _curve(scale: Scale, curve: Curve, place: int) -> Iterator[str]:
    look = f'stroke="{COLOURS[curve.side]}" stroke-width="2" stroke-dasharray="{DASHES[curve.dtype]}"'
    points = [(scale.x(rows), scale.y(took)) for rows, took in curve.points]
    yield f'<polyline fill="none" {look} points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in points)}"/>'
    for x, y in points:
        yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{COLOURS[curve.side]}"/>'
    x, y = WIDTH - RIGHT + 16, TOP + 14 + 22 * place
    yield f'<line x1="{x}" y1="{y}" x2="{x + 28}" y2="{y}" {look}/>'
    yield f'<text x="{x + 36}" y="{y + 4}">{curve.side}, {curve.dtype}</text>'


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("measured", nargs="+", type=Path, help="files that step_times wrote")
    parser.add_argument("--svg", type=Path, required=True)
    arguments = parser.parse_args()
    found = [json.loads(path.read_text(encoding="utf-8")) for path in arguments.measured]
    title = f"{found[0]['model']}: one step against its rows"
    arguments.svg.write_text(picture(title, curves(found)), encoding="utf-8")


if __name__ == "__main__":
    main()
