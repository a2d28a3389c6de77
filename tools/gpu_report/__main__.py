"""Measures this machine's CUDA GPU and writes report.json and report.md into a folder.

    python -m tools.gpu_report FOLDER

Needs torch, triton, transformers, numpy, typer and rich. Model weights are random and made on the GPU. Replies are
written by the demo model and, if shared/models/stories260K is beside the checkout, by that model. If a section
fails, its error is in the report, and the next section runs.
"""

import json
import platform
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any

import torch
import transformers
import typer

from app import __version__
from app.engine.machine.process_memory import release_memory
from tools.gpu_report.kernels import attention_errors, attention_times
from tools.gpu_report.plan import Plan, Row, tiny_plan
from tools.gpu_report.replies import replies
from tools.gpu_report.steps import (
    identical_bits,
    prompt_times,
    quantised_times,
    sampled_times,
    step_kernels,
    step_times,
)

NO_CUDA = "A GPU report needs a CUDA device, and torch finds none here: run it on a machine with one."

SECTIONS: dict[str, Callable[[Plan], Iterator[Row]]] = {
    "Kernels of a step": step_kernels,
    "Attention against float64": attention_errors,
    "Replies": replies,
    "Steps": step_times,
    "Sampled steps": sampled_times,
    "Identical bits": identical_bits,
    "Quantised steps": quantised_times,
    "Prompts": prompt_times,
    "Attention times": attention_times,
}


def write_report(folder: Path, plan: Plan, sections: Sequence[str] = tuple(SECTIONS)) -> dict[str, Any]:
    """Run these sections, write both files after each of them, and return the report.

    Sections that an earlier call on the same machine wrote stay in the report."""
    folder.mkdir(parents=True, exist_ok=True)
    report: dict[str, Any] = {"machine": _machine(plan), "sections": {}}
    path = folder / "report.json"
    earlier = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    if earlier.get("machine") == report["machine"]:
        report = earlier
    for name in sections:
        typer.echo(f"{name}…")
        report["sections"][name] = run_section(SECTIONS[name], plan)
        path.write_text(json.dumps(report, indent=1), encoding="utf-8")
        (folder / "report.md").write_text(markdown(report), encoding="utf-8")
    return report


def markdown(report: dict[str, Any]) -> str:
    """Return the report as one table for each section."""
    parts = ["# GPU report", ", ".join(f"{key} {value}" for key, value in report["machine"].items())]
    for name, section in report["sections"].items():
        parts.append(f"## {name}")
        parts.append(_table(section["rows"]))
        if section["error"]:
            parts.append(f"Failed: {section['error']}")
    return "\n\n".join(filter(None, parts)) + "\n"


def run_section(
    section: Callable[[Plan], Iterator[Row]], plan: Plan, release: Callable[[], None] = release_memory
) -> dict[str, Any]:
    """Run a section and return its rows, its seconds, and the error that ended it."""
    rows: list[Row] = []
    begin = perf_counter()
    # If the GPU is lost, releasing its memory fails, too; the first error is the reason.
    errors = [_error_of(work) for work in (lambda: rows.extend(section(plan)), release)]
    return {"rows": rows, "seconds": perf_counter() - begin, "error": next(filter(None, errors), "")}


def _error_of(work: Callable[[], None]) -> str:
    """Return what the work raises; "" if it succeeds."""
    try:
        work()
    except Exception as error:  # compilers, drivers and libraries raise errors of their own types
        words = f"{type(error).__name__}: {error}"
        typer.echo(words, err=True)
        return words
    return ""


def _table(rows: list[Row]) -> str:
    columns = list(dict.fromkeys(column for row in rows for column in row))
    cells = [columns, ["---"] * len(columns)]
    cells += [[_cell(row.get(column, "")) for column in columns] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in cells) if rows else ""


def _cell(value: str | float) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _machine(plan: Plan) -> dict[str, str]:
    device = torch.cuda.get_device_name() if plan.device.startswith("cuda") else platform.machine()
    versions = {"torch": torch.__version__, "transformers": transformers.__version__}
    return {"device": device, "foresight": __version__, **versions, "CUDA": str(torch.version.cuda)}


def main(
    folder: Annotated[Path, typer.Argument(help="Where report.json and report.md are written.")],
    device: Annotated[str, typer.Option(help="cuda, or cpu for trying the report itself.")] = "cuda",
    section: Annotated[list[str] | None, typer.Option(help="Only this section; may be repeated.")] = None,
    tiny: Annotated[bool, typer.Option("--tiny", help="Tiny shapes on the CPU, to try the report.")] = False,
) -> None:
    """Measure what this machine's CUDA GPU does."""
    if not tiny and device.startswith("cuda") and not torch.cuda.is_available():
        typer.echo(f"Error: {NO_CUDA}", err=True)
        raise typer.Exit(2)
    if unknown := [name for name in section or () if name not in SECTIONS]:
        typer.echo(f"Error: the report has no section {unknown[0]!r}, only {', '.join(SECTIONS)}.", err=True)
        raise typer.Exit(2)
    plan = tiny_plan() if tiny else Plan(device=device)
    report = write_report(folder, plan, section or tuple(SECTIONS))
    failed = [name for name in section or SECTIONS if report["sections"][name]["error"]]
    typer.echo(f"The report is in {folder}." + (f" Failed: {', '.join(failed)}." if failed else ""))
    raise typer.Exit(bool(failed))


if __name__ == "__main__":
    typer.run(main)
