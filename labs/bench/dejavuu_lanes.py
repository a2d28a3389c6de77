"""Runs the drafters of dejavuu (MIT) as contestants: token recycling, automata and others.

They are imported from a folder with the unpacked package. dejavuu is not a dependency, because it requires Python
3.13 and packages that the app does not need. These commands unpack it:

    pip download dejavuu --no-deps --python-version 3.13 --only-binary :all:
    python -m zipfile -e dejavuu-*.whl FOLDER
    pip install --target FOLDER --no-deps loguru onnxruntime

Forward passes after the prompt are counted, and the time excludes reading the prompt and setting up a drafter.
dejavuu drafts trees, as our decoder does, and its model runs with sdpa.
"""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from time import perf_counter
from typing import Any

from app.commands.bench_measurement import BenchRun, Contestant
from app.engine.loading.loading import LoadedModel
from app.engine.text.prompt import encode
from app.errors import BadOption
from app.values.messages import ModelFolder, Options, Prompt

DRAFTERS = ("token_recycling", "stand", "sam_decoding", "logit_spec", "asam_verify")


@dataclass(frozen=True, slots=True)
class _Package:
    """The parts of the package that are used."""

    generate: Callable[..., Any]
    make_drafter: Callable[[str], Any]
    backend: Callable[..., Any]


def dejavuu_lanes(
    loaded: LoadedModel, folder: ModelFolder, unpacked: Path, names: Sequence[str], budget: int
) -> list[Contestant]:
    """Return a contestant for each of these drafters, which draft `budget` tokens a step.

    Raises BadOption if the package cannot be imported, or if the model has several end tokens. The contestants
    raise BadOption for a prompt that is not answered greedily."""
    package = _import(unpacked)
    if len(loaded.eos_ids) > 1:
        raise BadOption(
            f"dejavuu supports one end token, and {folder.name} has {len(loaded.eos_ids)}: leave --dejavuu out."
        )
    model = package.backend(
        str(folder.path), loaded.info.device, dtype=loaded.info.dtype, attn_implementation="sdpa"
    )

    def lane(name: str) -> Contestant:
        def answer(prompt: Prompt, options: Options) -> BenchRun:
            return _run(package, model, loaded, prompt, options, package.make_drafter(name), budget)

        return Contestant(f"dejavuu {name}", f"{folder.name} {loaded.info.dtype} {budget}", answer)

    return [lane(name) for name in names]


def _import(unpacked: Path) -> _Package:
    sys.path.append(str(unpacked))
    try:
        drafters = import_module("dejavuu.drafters")
        engine = import_module("dejavuu.core.engine")
        backend = import_module("dejavuu.decoders.hf")
    except ImportError as error:
        raise BadOption(f"dejavuu cannot be imported from {unpacked} ({error}).") from error
    finally:
        sys.path.remove(str(unpacked))
    return _Package(engine.generate, drafters.make_drafter, backend.HFBackend)


def _run(
    package: _Package,
    model: Any,
    loaded: LoadedModel,
    prompt: Prompt,
    options: Options,
    drafter: Any,
    budget: int,
) -> BenchRun:
    if options.sampling.temperature:
        raise BadOption("dejavuu draws sampled text with noise of its own: compare it at temperature 0.")
    ids = encode(loaded.tokenizer, prompt, loaded.info.context)
    most = min(options.max_new_tokens, loaded.info.context - len(ids))
    eos = None if options.ignore_eos else next(iter(loaded.eos_ids), None)
    start = perf_counter()
    found = package.generate(model, list(ids), most, drafter, budget, eos, tree=True)
    seconds = perf_counter() - start - found.prefill_s - found.draft_setup_s
    return BenchRun(tuple(found.tokens), len(found.tokens), found.steps, seconds, found.drafted + found.steps)
