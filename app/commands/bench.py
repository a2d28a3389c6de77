"""`bench`: what was measured, as a table for each prompt set, their means, and a report as JSON."""

import json
import platform
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import typer
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from app.commands.measuring import Plan, Result, SetResults, means, measure
from app.conversation import ReplyEngine
from app.display_text import counted
from app.errors import BadOption


def bench(engine: ReplyEngine, plan: Plan, file: Path | None) -> None:
    """Run the plan, print each set's table when it is there, write the file."""
    if file:
        _check_writable(file)
    console, sets = Console(), list[SetResults]()
    for measured in measure(engine, plan):
        sets.append(measured)
        console.print(_table(f"{measured.name}: {counted(measured.prompts, 'prompt')}", measured.results))
    if len(sets) > 1:
        console.print(_table(f"mean of {len(sets)} sets", means(sets)))
    if note := sets[0].model.lookahead_note:
        console.print(note)
    if file:
        _write(file, plan, sets)


def _table(title: str, results: Sequence[Result]) -> Table:
    table = Table(title=title, title_justify="left", box=SIMPLE, padding=(0, 0, 0, 1), pad_edge=False)
    # Headings of two lines: the whole table must fit a terminal of 80 columns, or rich leaves columns out.
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
            f"{result.rows_per_step:.1f}",
            f"{result.hit_rate:.0%}",
        )
    return table


def _check_writable(file: Path) -> None:
    """Raise BadOption now rather than after minutes of measuring."""
    try:
        file.open("a").close()
    except OSError as error:
        raise BadOption(
            f"{file} cannot be written ({error.strerror}): choose another place for --json."
        ) from error


def _write(file: Path, plan: Plan, sets: Sequence[SetResults]) -> None:
    report = {
        "model": asdict(sets[0].model),
        "machine": {
            "platform": platform.platform(),
            "processor": platform.processor() or platform.machine(),
            "python": platform.python_version(),
        },
        "prompts": sum(one.prompts for one in sets),
        "rounds": plan.rounds,
        "options": asdict(plan.options),
        "lanes": {lane.name: asdict(lane.decoding) for lane in plan.lanes},
        # Of one set its own numbers, of several their means.
        "decoders": [asdict(result) for result in means(sets)],
        "sets": [
            {"set": one.name, "prompts": one.prompts, "decoders": [asdict(result) for result in one.results]}
            for one in sets
        ],
    }
    try:
        file.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        typer.echo(json.dumps(report), err=True)
        raise BadOption(
            f"The report could not be written to {file} ({error.strerror}): it is printed above."
        ) from error
