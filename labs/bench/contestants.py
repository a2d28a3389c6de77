"""Runs transformers' generate as contestants: plain, with prompt lookup, and with a draft model.

They get the same prompts as our decoders. The first forward pass, which reads the prompt, is left out with its
token and its time. Then tokens, forward passes and seconds are counted up to the last token:

    ours            the engine's own statistics of a reply, as `bench` shows them
    transformers    a streamer records the time of each pass's tokens, a hook on the model counts the passes

transformers runs in the way that is best for it: with sdpa, in inference mode, with an attention mask, and without
logits processors that this comparison does not need. It uses our weights, dtype, number of threads and prompt ids.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from time import perf_counter
from types import MappingProxyType
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig
from transformers.generation.streamers import BaseStreamer

from app.commands.bench_measurement import BenchRun, Contestant
from app.conversation import Reply
from app.engine.loading.loading import LoadedModel
from app.engine.loading.parts import no_progress
from app.engine.session.session import Session
from app.engine.text.prompt import encode
from app.engine.text.token_counter import CachedTokenReader
from app.errors import BadOption
from app.values.messages import ModelFolder, Options, Prompt, Request
from app.values.tokenizer_vocabulary import digest_of

LOOKUP_TOKENS = 10
_make_config: Any = GenerationConfig  # untyped in transformers


class SessionEngine:
    """Makes a session usable as an engine, which answers before `submit` returns."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def submit(self, request: Request, reply: Reply) -> None:
        """Write the whole reply, and append its events to `reply`."""
        for event in self._session.events(request, no_progress):
            reply.append(event)

    def reader(self) -> CachedTokenReader:
        return self._session.reader


def transformers_lanes(
    loaded: LoadedModel, folder: ModelFolder, draft_model: Path | None = None
) -> list[Contestant]:
    """Return contestants for generate: plain, with prompt lookup, and, if one is given, with a draft model."""
    model = _read_model(loaded, folder.path)
    answers = {
        "transformers": partial(_generate, model, loaded),
        "transformers prompt lookup": partial(_generate, model, loaded, lookup=LOOKUP_TOKENS),
    }
    if draft_model:
        assistant = _read_draft_model(loaded, model, draft_model)
        answers["transformers assisted"] = partial(_generate, model, loaded, assistant=assistant)
    about = f"{folder.name} {loaded.info.dtype} {draft_model}"
    return [Contestant(name, about, answer) for name, answer in answers.items()]


class Stopwatch(BaseStreamer):
    """Records when tokens arrive: first the prompt's, then those of each pass."""

    def __init__(self) -> None:
        self.stamps: list[tuple[float, int]] = []

    def put(self, value: Any) -> None:
        """Record the time and the number of the tokens: the prompt [1, n], or the tokens [n] of a pass."""
        self.stamps.append((perf_counter(), value.numel()))

    def end(self) -> None:
        """Do nothing, because each pass was recorded already."""


@dataclass(slots=True)
class Passes:
    """Counts a model's forward passes."""

    count: int = field(default=0)

    def __call__(self, *_arguments: Any) -> None:
        self.count += 1


def _read_model(loaded: LoadedModel, path: Path) -> Any:
    read: Any = AutoModelForCausalLM.from_pretrained
    dtype = getattr(torch, loaded.info.dtype)
    model = read(path, dtype=dtype, attn_implementation="sdpa", local_files_only=True)
    # Otherwise generate would take what `_config` leaves out, such as a top-k of 50, from the model's
    # generation_config.json.
    model.generation_config = _make_config()
    return model.requires_grad_(False).train(False).to(loaded.info.device)


def _read_draft_model(loaded: LoadedModel, model: Any, path: Path) -> dict[str, Any]:
    """Return generate's arguments for a draft model, with both tokenizers if they differ (universal assisted
    generation). Raises BadOption if it cannot be read, or for the same vocabulary with another number of logits."""
    try:
        draft_model, own = (
            _read_model(loaded, path),
            AutoTokenizer.from_pretrained(path, local_files_only=True),
        )
    except (OSError, ValueError) as error:
        raise BadOption(f"The draft model {path} cannot be read. Give the folder of a model.") from error
    if digest_of(own.get_vocab()) != digest_of(loaded.tokenizer.get_vocab()):
        return {"assistant_model": draft_model, "tokenizer": loaded.tokenizer, "assistant_tokenizer": own}
    sizes = [one.config.get_text_config().vocab_size for one in (model, draft_model)]
    if sizes[0] != sizes[1]:
        raise BadOption(
            f"The draft model {path} has {sizes[1]:,} logits, and the model has {sizes[0]:,}. "
            "Choose a draft model with the same number of logits."
        )
    return {"assistant_model": draft_model}


@torch.inference_mode()
def _generate(
    model: Any,
    loaded: LoadedModel,
    prompt: Prompt,
    options: Options,
    lookup: int | None = None,
    assistant: Mapping[str, Any] = MappingProxyType({}),
) -> BenchRun:
    known = encode(loaded.tokenizer, prompt, loaded.info.context)
    ids = torch.tensor([known], device=model.device)
    stopwatch, passes = Stopwatch(), Passes()
    hook = model.register_forward_pre_hook(passes)
    torch.manual_seed(options.sampling.seed)
    try:
        generated = model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            generation_config=_config(loaded, options, len(known), lookup),
            **assistant,
            streamer=stopwatch,
        )
    finally:
        hook.remove()
    return _run_by(stopwatch, passes, tuple(generated[0, len(known) :].tolist()))


def _config(loaded: LoadedModel, options: Options, length: int, lookup: int | None) -> Any:
    ends: Sequence[int] = () if options.ignore_eos else sorted(loaded.eos_ids)
    temperature = options.sampling.temperature
    sampled = (
        {"do_sample": True, "temperature": temperature, "top_k": 0} if temperature else {"do_sample": False}
    )
    return _make_config(
        max_new_tokens=min(options.max_new_tokens, loaded.info.context - length),
        eos_token_id=list(ends) or None,
        pad_token_id=ends[0] if ends else 0,
        prompt_lookup_num_tokens=lookup,
        **sampled,
    )


def _run_by(stopwatch: Stopwatch, passes: Passes, ids: tuple[int, ...]) -> BenchRun:
    """Make a run from the recorded times, without the prompt's tokens and those of the first pass."""
    first, *rest = stopwatch.stamps[1:]
    if passes.count != len(rest) + 1 or first[1] + sum(number for _, number in rest) != len(ids):
        raise RuntimeError(
            f"each pass should stamp its tokens once, got {passes.count} passes, {len(ids)} tokens and "
            f"the stamps {[number for _, number in stopwatch.stamps]}"
        )
    seconds = rest[-1][0] - first[0] if rest else 0.0
    return BenchRun(ids, sum(number for _, number in rest), len(rest), seconds)
