"""`python run.py bench`: compares decoders on sets of prompts, and prints a table for each set.

With `--json` it also writes all results to a file."""

import json
import os
import platform
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from app.commands import options as given
from app.commands.bench_measurement import (
    BenchPlan,
    LaneNumbers,
    SetResults,
    engine_contestant,
    means,
    measure,
)
from app.commands.console import errors_as_sentences, print_text
from app.commands.decoder_options import DecoderSizes, read_lanes, require_drafting
from app.commands.prompts import PromptSet, SamplingOverride, read_sets, require_sampled
from app.commands.services import engine_in
from app.conversation import ModelEngine
from app.conversation.race.lane_comparison import Lane
from app.database.data_folder import optional_data_dir
from app.errors import BadOption, impossible_values
from app.settings import DEMO_MODEL
from app.system.files import write_output
from app.values.display_text import counted
from app.values.messages import Decoding, ModelChoice, Options, Sampling


@dataclass(frozen=True, slots=True)
class Comparison:
    model: ModelChoice
    sets: Sequence[PromptSet]
    lanes: Sequence[Lane]
    options: Options
    rounds: int


Rounds = Annotated[int, typer.Option(help="How many times all prompts are run.")]
Report = Annotated[
    Path | None, typer.Option("--json", metavar="FILE", help="Also write the results to this file.")
]


def bench(
    prompts: given.PromptSets = None,
    model: given.Model = DEMO_MODEL,
    draft_model: given.DraftModel = "",
    decoders: given.Lanes = "plain,auto",
    raw: given.Raw = False,
    rows: given.Rows = None,
    preset: given.PresetOption = None,
    window: given.Window = None,
    ngram: given.NGram = None,
    guesses: given.Guesses = None,
    same_text: given.SameText = "on",
    temperature: given.Temperature = None,
    seed: given.Seed = None,
    dtype: given.DTypeOption = "auto",
    device: given.DeviceOption = "auto",
    quantisation: given.QuantisationOption = "auto",
    offload: given.OffloadOption = False,
    attention: given.AttentionOption = "auto",
    max_new_tokens: given.MaxNewTokens = 128,
    ignore_eos: given.IgnoreEos = False,
    rounds: Rounds = 2,
    report: Report = None,
    data_dir: given.DataDir = None,
    overwrite: given.Overwrite = False,
) -> None:
    """Compare decoders on the same prompts, in turn, in one process."""
    override = SamplingOverride(temperature, seed)
    with errors_as_sentences():
        given.require_with("--overwrite", overwrite, "--json", report)
        sets = read_sets(prompts or [], raw, override)
        sizes = DecoderSizes(preset, window, ngram, guesses, rows)
        lanes = read_lanes(decoders, sizes, same_text == "on")
        require_drafting(draft_model, (lane.decoding.decoder for lane in lanes))
        with impossible_values():
            base = sizes.apply(Decoding(same_text=same_text == "on"))
            options = Options(override.apply(Sampling()), base, max_new_tokens, ignore_eos)
            choice = ModelChoice(
                model, dtype, device, quantisation, attention, draft_model=draft_model, offload=offload
            )
            comparison = Comparison(choice, sets, lanes, options, rounds)
        require_sampled(options.sampling, override, [item for one in sets for item in one.prompts])
        with engine_in(optional_data_dir(data_dir)) as engine:
            run_bench(engine, comparison, report, overwrite)


def run_bench(
    engine: ModelEngine, comparison: Comparison, file: Path | None = None, overwrite: bool = False
) -> None:
    """Measure the sets, print the table of each as soon as it is measured, and write the report to `file`."""
    if file:
        given.require_free(file, overwrite)
        check_writable(file)
    contestants = [engine_contestant(engine, comparison.model, lane) for lane in comparison.lanes]
    with impossible_values():
        plan = BenchPlan(comparison.sets, contestants, comparison.options, comparison.rounds)
    sets = print_tables(measure(plan, {}))
    model = engine.status().model
    if model and (note := model.note("lookahead", "chains")):
        print_text(note)
    if file:
        about = {
            "model": asdict(model) if model else None,
            "rounds": comparison.rounds,
            "options": asdict(comparison.options),
            "lanes": {lane.name: asdict(lane.decoding) for lane in comparison.lanes},
        }
        write_report(file, report_of(sets, about))


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
    # Headings of two lines keep the table within 80 characters. Rich leaves out columns that do not fit.
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
    """Raise BadOption if the report's file cannot be written. Creates the file if it does not exist.

    This is checked first, because measuring takes minutes."""
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
