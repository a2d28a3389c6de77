"""`python run.py bench`: compares decoders on sets of prompts. Suites and leaderboards: labs/bench."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from app.commands import options as given
from app.commands.bench_measurement import BenchPlan, engine_contestant
from app.commands.bench_report import run_and_report
from app.commands.console import errors_as_sentences, print_text
from app.commands.decoder_options import DecoderSizes, read_lanes, require_drafting
from app.commands.prompts import PromptSet, SamplingOverride, read_sets, require_sampled
from app.commands.services import engine_in
from app.conversation import ModelEngine
from app.conversation.race.decoder_comparison import Lane
from app.database.data_folder import optional_data_dir
from app.errors import impossible_values
from app.settings import DEMO_MODEL
from app.values.messages import Decoding, ModelChoice, Options, Sampling


@dataclass(frozen=True, slots=True)
class Asked:
    """The comparison that was asked for: decoders of a model over sets of prompts."""

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
            asked = Asked(choice, sets, lanes, options, rounds)
        require_sampled(options.sampling, override, [item for one in sets for item in one.prompts])
        with engine_in(optional_data_dir(data_dir)) as engine:
            run_bench(engine, asked, report, overwrite)


def run_bench(engine: ModelEngine, asked: Asked, report: Path | None = None, overwrite: bool = False) -> None:
    """Measure the sets, print the table of each as soon as it is measured, and write the report."""

    def about() -> dict[str, Any]:
        model = engine.status().model
        if model and (note := model.note("lookahead", "chains")):
            print_text(note)
        return {
            "model": asdict(model) if model else None,
            "rounds": asked.rounds,
            "options": asdict(asked.options),
            "lanes": {lane.name: asdict(lane.decoding) for lane in asked.lanes},
        }

    contestants = [engine_contestant(engine, asked.model, lane) for lane in asked.lanes]
    with impossible_values():
        plan = BenchPlan(asked.sets, contestants, asked.options, asked.rounds)
    run_and_report(plan, report, overwrite, about)
