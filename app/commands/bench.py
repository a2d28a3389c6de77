"""`python run.py bench`: compares decoders; a table for each prompt set, the means, and a report as JSON."""

import json
import platform
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated

import typer
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from app.commands import options as given
from app.commands.bench_measurement import BenchPlan, LaneNumbers, SetResults, means, measure
from app.commands.console import errors_as_sentences
from app.commands.decoder_options import DecoderSizes, read_lanes
from app.commands.prompts import PromptSet, SamplingOverride, read_sets
from app.commands.services import engine_in
from app.commands.suites import Suite, read_suite
from app.conversation import ReplyEngine
from app.display_text import counted
from app.errors import BadOption, impossible_values
from app.messages import Decoding, ModelChoice, Options, Sampling
from app.settings import DEMO_MODEL, default_data_dir


def bench(
    prompts: given.PromptSets = None,
    suite: given.SuiteOption = None,
    suite_data: given.SuiteData = None,
    limit: given.Limit = None,
    model: given.Model = DEMO_MODEL,
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
    quantisation: given.QuantisationOption = "none",
    attention: given.AttentionOption = "auto",
    max_new_tokens: given.MaxNewTokens = 128,
    ignore_eos: given.IgnoreEos = False,
    rounds: Annotated[int, typer.Option(help="How often all prompts are run.")] = 2,
    report: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Also write the numbers to this file.")
    ] = None,
) -> None:
    """Compare decoders on the same prompts, in turn, in one process."""
    override = SamplingOverride(temperature, seed)
    with errors_as_sentences():
        sets = _sets(prompts or [], suite, suite_data, limit, raw, override)
        sizes = DecoderSizes(preset, window, ngram, guesses, rows)
        base = sizes.apply(Decoding(same_text=same_text == "on"))
        lanes = read_lanes(decoders, base)
        with impossible_values():
            options = Options(override.apply(Sampling()), base, max_new_tokens, ignore_eos)
            choice = ModelChoice(model, dtype, device, quantisation, attention)
            plan = BenchPlan(choice, sets, lanes, options, rounds)
        with engine_in(default_data_dir()) as engine:
            run_bench(engine, plan, report)


def _sets(
    prompts: Sequence[Path],
    suite: Suite | None,
    folder: Path | None,
    limit: int | None,
    raw: bool,
    override: SamplingOverride,
) -> list[PromptSet]:
    """The suite's categories, or the sets of these files."""
    if suite is None:
        if folder or limit is not None:
            raise BadOption("--suite-data and --limit are only for --suite.")
        return read_sets(prompts, raw, override)
    if prompts or raw:
        raise BadOption("--suite brings its own questions: leave out --prompts and --raw.")
    return [
        PromptSet(one.name, tuple(replace(item, override=override) for item in one.prompts))
        for one in read_suite(suite, folder, limit)
    ]


def run_bench(engine: ReplyEngine, plan: BenchPlan, file: Path | None) -> None:
    """Measures, prints each set's table as soon as it is measured, and writes the file."""
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
            f"{result.rows_per_step:.1f}",
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


def _write(file: Path, plan: BenchPlan, sets: Sequence[SetResults]) -> None:
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
        # The numbers of a single set, or the means of several.
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
            f"The report could not be written to {file} ({error.strerror}). It is printed above."
        ) from error
