"""The report's pictures, where matplotlib is there: milliseconds per step by rows, and attention's bandwidth."""

from importlib.util import find_spec
from pathlib import Path
from typing import Any

from app.engine.gpu_report.findings import Report
from app.engine.gpu_report.plan import Plan

MISSING = "There are no pictures, because matplotlib is not installed: pip install matplotlib."
STEPS, BANDWIDTH = "steps.png", "attention.png"


def draw(report: Report, plan: Plan, folder: Path) -> str:
    """Write what there are findings for; a sentence where nothing can be drawn."""
    if find_spec("matplotlib") is None:
        return MISSING
    if report.select("step"):
        _steps(report, plan).savefig(folder / STEPS, dpi=120)
    if any("ms" in each.numbers for each in report.select("attention")):
        _bandwidth(report, plan).savefig(folder / BANDWIDTH, dpi=120)
    return ""


def _figure(parts: int) -> tuple[Any, list[Any]]:
    from matplotlib.figure import Figure  # slow to import; without pyplot it needs no display

    figure = Figure(figsize=(1.5 + 4.5 * parts, 4.5), layout="constrained")
    return figure, [figure.add_subplot(1, parts, place + 1) for place in range(parts)]


def _steps(report: Report, plan: Plan) -> Any:
    """A line for each shape; transformers' generate as a dot at one row."""
    figure, [axes] = _figure(1)
    for shape in plan.models:
        found = report.select("step", shape=shape.name)
        if not found:
            continue
        line = [(each.at["rows"], each.numbers["ms"]["median"]) for each in found]
        [drawn] = axes.plot(*zip(*line, strict=True), marker="o", label=shape.name)
        generate = report.last("generate", shape=shape.name)
        if generate:
            axes.plot(1, generate["ms"]["median"], "x", color=drawn.get_color())
    axes.set(xlabel="rows of the step (x: transformers' generate)", ylabel="ms per step", ylim=(0, None))
    axes.legend()
    return figure


def _bandwidth(report: Report, plan: Plan) -> Any:
    """For each shape of heads: the share of the copy's bandwidth by prefix, at the judged number of rows."""
    figure, parts = _figure(len(plan.heads))
    for axes, heads in zip(parts, plan.heads, strict=True):
        found = report.select("attention", heads=heads.name, rows=plan.judged_rows)
        for name in dict.fromkeys(each.at["by"] for each in found):
            line = sorted(
                (each.at["prefix"], 100 * each.numbers["share_of_copy"])
                for each in found
                if each.at["by"] == name
            )
            axes.plot(*zip(*line, strict=True), marker="o", label=name)
        axes.set(
            title=f"{heads.name}: {heads.count}/{heads.shared} heads of {heads.size}, {plan.judged_rows} rows",
            xlabel="prefix",
            ylabel="% of the copy's bandwidth",
            xscale="log",
            ylim=(0, None),
        )
        if found:
            axes.legend(fontsize="small")
    return figure
