"""What a benchmark leaves behind: tables on the console; a report, the leaderboard and its picture as files."""

import json
import os
import platform
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import typer
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from app.commands.bench_measurement import BenchPlan, LaneNumbers, SetResults, means, measure
from app.commands.bench_runs import RunLog
from app.commands.console import print_text
from app.commands.leaderboard import Leaderboard
from app.commands.leaderboard_picture import picture
from app.commands.options import require_free
from app.errors import BadOption
from app.system.files import write_output
from app.values.display_text import counted

REPORT_FILE, TABLE_FILE, PICTURE_FILE = "report.json", "leaderboard.md", "leaderboard.svg"


@dataclass(frozen=True, slots=True)
class BenchFiles:
    """Where a benchmark writes: a report, or a folder with runs, report, leaderboard and picture."""

    report: Path | None = None
    folder: Path | None = None
    overwrite: bool = False


def run_and_report(
    plan: BenchPlan, files: BenchFiles, about: Callable[[], tuple[str, dict[str, Any]]]
) -> None:
    """Measures and writes the files. `about`, called at the end, tells the title and what was measured on what."""
    if files.report:
        require_free(files.report, files.overwrite)
        _check_writable(files.report)
    log = RunLog(files.folder)
    if files.folder and not len(log):  # then what has the names of a report is no benchmark's
        for name in (REPORT_FILE, TABLE_FILE, PICTURE_FILE):
            require_free(files.folder / name, files.overwrite)
    if len(log):
        print_text(f"{counted(len(log), 'run')} in {files.folder}: what was measured there is not repeated.")
    sets = _print_tables(measure(plan, log))
    title, known = about()
    report = _report(sets, known)
    if files.report:
        _write(files.report, report)
    if files.folder:
        board = Leaderboard.of(sets)
        _write(files.folder / REPORT_FILE, report)
        write_output(files.folder / TABLE_FILE, f"# {title}\n\n{board.markdown()}")
        write_output(files.folder / PICTURE_FILE, picture(board, title))
        print_text(f"The report, the leaderboard and its picture are in {files.folder}.")


def _print_tables(measured: Iterable[SetResults]) -> list[SetResults]:
    """Prints each set's table as soon as it is measured, and the means. Returns all results."""
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


def _check_writable(file: Path) -> None:
    """Raises BadOption now rather than after minutes of measuring."""
    try:
        file.open("a").close()
    except OSError as error:
        raise BadOption(
            f"{file} cannot be written ({error.strerror}). Choose another file for --json."
        ) from error


def _report(sets: Sequence[SetResults], about: dict[str, Any]) -> dict[str, Any]:
    """The numbers of all sets, the machine, and what else there is to say about them."""
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
        # The numbers of a single set, or the means of several.
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


def _write(file: Path, report: dict[str, Any]) -> None:
    """Writes the report, or prints it where its folder has vanished meanwhile."""
    try:
        write_output(file, json.dumps(report, indent=2) + "\n")
    except OSError as error:
        typer.echo(json.dumps(report), err=True)
        raise BadOption(
            f"The report could not be written to {file} ({error.strerror}). It is printed above."
        ) from error
