"""Compares our decoders with each other and with other programs, which run in turn with the same model.

python -m labs.bench --suite spec-bench --suite-data FOLDER --output RUNS
"""

from argparse import ArgumentParser, BooleanOptionalAction, Namespace
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, get_args

import torch
import transformers

from app.commands.bench import check_writable, print_tables, report_of, write_report
from app.commands.bench_measurement import BenchPlan, Contestant, Runs, engine_contestant, measure
from app.commands.console import errors_as_sentences, print_text
from app.commands.decoder_options import DecoderSizes, read_lanes
from app.commands.prompts import PromptSet, SamplingOverride, read_sets
from app.database.data_folder import optional_data_dir
from app.engine.loading.loading import LoadedModel
from app.engine.session.session import Session
from app.errors import impossible_values
from app.models_registry.locate import locate
from app.system.files import write_output
from app.values.display_text import counted
from app.values.messages import ModelChoice, ModelFolder, Options, Progress
from labs.bench.contestants import SessionEngine, transformers_lanes
from labs.bench.dejavuu_lanes import DRAFTERS, dejavuu_lanes
from labs.bench.leaderboard import Leaderboard, picture
from labs.bench.llama_cpp import llama_lanes
from labs.bench.runs import RunLog
from labs.bench.suites import Suite, read_suite


def main() -> None:
    """Run the benchmark: print tables, and write the files that the options name."""
    options = _parser().parse_args()
    if options.threads:
        torch.set_num_threads(options.threads)
    with errors_as_sentences():
        _compare(options)


def _compare(options: Namespace) -> None:
    with impossible_values():
        choice = ModelChoice(options.model, options.dtype, options.device, options.quantisation)
        asked = Options(max_new_tokens=options.max_new_tokens, ignore_eos=options.ignore_eos)
    sets = _sets(options)
    folders: list[ModelFolder] = []
    cache = optional_data_dir() / "steps"
    session = Session(lambda name, progress: _remembered(folders, name, progress), cache)
    loaded = session.open(choice, lambda *_: None)
    contestants = _contestants(options, choice, session, loaded, folders[0])
    with impossible_values():
        plan = BenchPlan(sets, contestants, asked, options.rounds)
    _measure(plan, options, loaded)


def _measure(plan: BenchPlan, options: Namespace, loaded: LoadedModel) -> None:
    """Measure, print the tables, and write the report; with `--output` also the leaderboard and its picture."""
    if options.json:
        check_writable(options.json)
    known: Runs = RunLog(options.output) if options.output else {}
    if known:
        print_text(
            f"{counted(len(known), 'run')} in {options.output}: what was measured there is not repeated."
        )
    sets = print_tables(measure(plan, known))
    title, about = _about(options, loaded)
    report = report_of(sets, about)
    if options.json:
        write_report(options.json, report)
    if options.output:
        board = Leaderboard.of(sets)
        write_report(options.output / "report.json", report)
        write_output(options.output / "leaderboard.md", f"# {title}\n\n{board.markdown()}")
        write_output(options.output / "leaderboard.svg", picture(board, title))
        print_text(f"The report, the leaderboard and its picture are in {options.output}.")


def _sets(options: Namespace) -> Sequence[PromptSet]:
    if options.suite:
        return read_suite(options.suite, options.suite_data, options.limit)
    return read_sets(options.prompts, options.raw, SamplingOverride())


def _contestants(
    options: Namespace, choice: ModelChoice, session: Session, loaded: LoadedModel, folder: ModelFolder
) -> list[Contestant]:
    engine = SessionEngine(session)
    lanes = read_lanes(options.decoders, DecoderSizes(), options.same_text)
    found = [engine_contestant(engine, choice, lane) for lane in lanes]
    if options.transformers:
        found += transformers_lanes(loaded, folder, options.draft_model)
    if options.dejavuu:
        found += dejavuu_lanes(loaded, folder, options.dejavuu, options.drafters.split(","), options.budget)
    if options.llama_bench:
        found += llama_lanes(options.llama_bench, options.gguf, torch.get_num_threads())
    return found


def _about(options: Namespace, loaded: LoadedModel) -> tuple[str, dict[str, Any]]:
    quantised = "" if options.quantisation == "none" else f", ours in {options.quantisation}"
    title = f"{Path(options.model).name}, {loaded.info.dtype}{quantised}: speed against our plain decoding"
    return title, {
        "model": asdict(loaded.info),
        "threads": torch.get_num_threads(),
        "versions": {"torch": torch.__version__, "transformers": transformers.__version__},
        "options": {name: str(value) for name, value in vars(options).items()},
    }


def _remembered(folders: list[ModelFolder], name: str, progress: Progress) -> ModelFolder:
    """Find the model's folder, and remember it, because transformers has to read it as well."""
    folders.append(locate(name, progress))
    return folders[-1]


def _parser() -> ArgumentParser:
    parser = ArgumentParser(prog="python -m labs.bench", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--model", default="demo", help="a folder, a hub id, or demo")
    parser.add_argument(
        "--decoders", default="plain,auto", help="our decoders, written as for the bench command"
    )
    parser.add_argument(
        "--prompts", type=Path, action="append", default=[], help="a prompt set; may be repeated"
    )
    parser.add_argument("--suite", choices=get_args(Suite), help="a known benchmark, in place of prompt sets")
    parser.add_argument("--suite-data", type=Path, help="the folder of the suite's questions")
    parser.add_argument("--limit", type=int, help="maximum number of questions of each category")
    parser.add_argument("--transformers", action="store_true", help="add transformers' generate")
    parser.add_argument("--draft-model", type=Path, help="a draft model's folder: adds assisted generation")
    parser.add_argument("--dejavuu", type=Path, help="folder of the unpacked dejavuu: adds its drafters")
    parser.add_argument("--drafters", default=",".join(DRAFTERS), help="names of dejavuu's drafters")
    parser.add_argument(
        "--budget", type=int, default=31, help="number of tokens that dejavuu drafts per step"
    )
    parser.add_argument("--llama-bench", type=Path, help="path of llama-bench: adds llama.cpp's tg128")
    parser.add_argument(
        "--gguf", type=Path, action="append", default=[], help="a file for llama-bench; may be repeated"
    )
    parser.add_argument("--raw", action="store_true", help="send texts without the chat template")
    parser.add_argument("--dtype", default="auto")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--quantisation", default="none", help="quantisation of the weights for our decoders")
    parser.add_argument("--max-new-tokens", type=int, default=128)
    parser.add_argument("--ignore-eos", action="store_true")
    parser.add_argument("--same-text", action=BooleanOptionalAction, default=True)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--threads", type=int, default=0, help="number of threads; 0 leaves it to torch")
    parser.add_argument("--json", type=Path, help="write the numbers to this file")
    parser.add_argument(
        "--output", type=Path, help="keep every run in this folder, and continue a stopped benchmark"
    )
    return parser


if __name__ == "__main__":
    main()
