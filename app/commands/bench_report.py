"""The output of `bench`: a table for each prompt set on the console, and all results as JSON."""

import json
import os
import platform
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import typer
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from app.commands.bench_measurement import BenchPlan, LaneNumbers, SetResults, means, measure
from app.commands.options import require_free
from app.errors import BadOption
from app.system.files import write_output
from app.values.display_text import counted


def run_and_report(
    plan: BenchPlan, file: Path | None, overwrite: bool, about: Callable[[], dict[str, Any]]
) -> None:
    """Measure, print each set's table as soon as it is measured, and write the report if a file is named.

    `about`, called after measuring, returns what else the report contains."""
    if file:
        require_free(file, overwrite)
        check_writable(file)
    sets = print_tables(measure(plan, {}))
    report = report_of(sets, about())
    if file:
        write_report(file, report)


def print_tables(measured: Iterable[SetResults]) -> list[SetResults]:
    """Print each set's table as soon as it is measured, then the means. Returns all results."""
    console, sets = Console(), list[SetResults]()
    for one in measured:
        sets.append(one)
        console.print(_table(f"{one.name}: {counted(one.prompts, 'prompt')}", one.results))
    if len(sets) > 1:
        console.print(_table(f"mean of {len(sets)} sets", means(sets)))
    return sets


def _table(title: str, results: Sequence[LaneNumbers]) -> Table:
    table = Table(title=title, title_justify="left", box=SIMPLE, padding=(0, 0, 0, 1), pad_edge=False)
    # Headings of two lines, so that the table fits 80 columns: rich leaves out columns that do not fit.
    table.add_column("decoder", no_wrap=True)
    for heading in (
        "tokens\nper step",
        "tokens/s",
        "against\nplain",
        "identical",
        "ms per\nstep",
        "rows\nper step",
        "hit\nrate",
    ):
        table.add_column(heading, justify="right", no_wrap=True)
    for result in results:
        table.add_row(
            result.decoder,
            f"{result.tokens_per_step:.2f}",
            f"{result.tokens_per_second:.1f}",
            f"{result.speed_vs_plain:.2f}x" if result.speed_vs_plain else "-",
            "yes" if result.identical else "no",
            f"{result.ms_per_step:.2f}",
            f"{result.rows_per_step:.1f}" if result.rows_per_step else "-",
            f"{result.hit_rate:.0%}",
        )
    return table


def check_writable(file: Path) -> None:
    """Raise BadOption if the report's file cannot be written, before minutes are spent on measuring.

    Creates the file if it does not exist."""
    try:
        file.open("a").close()
    except OSError as error:
        raise BadOption(
            f"{file} cannot be written ({error.strerror}). Choose another file for --json."
        ) from error


def report_of(sets: Sequence[SetResults], about: dict[str, Any]) -> dict[str, Any]:
    """Return the results of all sets and their means, the machine, and `about`."""
    return {
        **about,
        "machine": {
            "platform": platform.platform(),
            "processor": platform.processor() or platform.machine(),
            "cores": os.cpu_count(),
            "python": platform.python_version(),
        },
        "prompts": sum(one.prompts for one in sets),
        "replies": sum(one.replies for one in sets),
        # The results of a single set, or the means of several.
        "decoders": [asdict(result) for result in means(sets)],
        "sets": [
            {
                "set": one.name,
                "prompts": one.prompts,
                "replies": one.replies,
                "decoders": [asdict(result) for result in one.results],
            }
            for one in sets
        ],
    }


def write_report(file: Path, report: dict[str, Any]) -> None:
    """Write the report. If that fails, print it on standard error and raise BadOption."""
    try:
        write_output(file, json.dumps(report, indent=2) + "\n")
    except OSError as error:
        typer.echo(json.dumps(report), err=True)
        raise BadOption(
            f"The report could not be written to {file} ({error.strerror}). It is printed above."
        ) from error
