"""Compare our decoders with transformers' generate on a model: `python -m tools.peers --help`."""

import json
import platform
from argparse import ArgumentParser, BooleanOptionalAction, Namespace
from dataclasses import asdict
from pathlib import Path

import torch
import transformers

from app.commands.console import errors_as_sentences
from app.commands.decoder_options import read_lanes
from app.commands.prompts import SamplingOverride, read_sets
from app.engine.session import Session
from app.errors import impossible_values
from app.messages import Decoding, ModelChoice, ModelFolder, Options, Progress
from app.models_registry import locate
from tools.peers.comparison import compare, markdown, means
from tools.peers.contestants import our_lane, transformers_lanes


def main() -> None:
    """Command line: the table on standard output, the numbers in a file."""
    options = _parser().parse_args()
    if options.threads:
        torch.set_num_threads(options.threads)
    with errors_as_sentences():
        _compare(options)


def _compare(options: Namespace) -> None:
    with impossible_values():
        choice = ModelChoice(options.model, options.dtype, options.device)
        asked = Options(max_new_tokens=options.max_new_tokens, ignore_eos=options.ignore_eos)
    sets = read_sets(options.prompts, options.raw, SamplingOverride())
    lanes = read_lanes(options.decoders, Decoding(same_text=options.same_text))
    folders: list[ModelFolder] = []
    session = Session(lambda name, progress: _remembered(folders, name, progress))
    loaded = session.open(choice, lambda *_: None)
    contestants = [our_lane(lane, session, choice) for lane in lanes]
    contestants += transformers_lanes(loaded, folders[0])
    found = list(compare(contestants, sets, asked, options.rounds))
    plain = [lane.name for lane in lanes if lane.decoding.decoder == "plain"][:1]
    print(markdown(found, [*plain, *(one.name for one in contestants[len(lanes) :])]))  # noqa: T201
    if options.json:
        report = {
            "model": asdict(loaded.info),
            "machine": {"platform": platform.platform(), "threads": torch.get_num_threads()},
            "versions": {"torch": torch.__version__, "transformers": transformers.__version__},
            "options": {name: str(value) for name, value in vars(options).items()},
            "sets": [asdict(one) for one in found],
            "means": [asdict(one) for one in means(found)],
        }
        options.json.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")


def _remembered(folders: list[ModelFolder], name: str, progress: Progress) -> ModelFolder:
    """The model's folder, which transformers has to read as well."""
    folders.append(locate(name, progress))
    return folders[-1]


def _parser() -> ArgumentParser:
    parser = ArgumentParser(prog="python -m tools.peers", description=__doc__)
    parser.add_argument("--model", default="demo", help="a folder, a hub id, or demo")
    parser.add_argument("--decoders", default="plain,auto", help="our lanes, as for bench")
    parser.add_argument(
        "--prompts", type=Path, action="append", default=[], help="a prompt set; may be repeated"
    )
    parser.add_argument("--raw", action="store_true", help="send texts without the chat template")
    parser.add_argument("--dtype", default="auto")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--max-new-tokens", type=int, default=128)
    parser.add_argument("--ignore-eos", action="store_true")
    parser.add_argument("--same-text", action=BooleanOptionalAction, default=True)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--threads", type=int, default=0, help="0: as torch chooses")
    parser.add_argument("--json", type=Path, help="write the numbers here, too")
    return parser


if __name__ == "__main__":
    main()
