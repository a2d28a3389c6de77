"""Who takes part: our lanes, and transformers' generate, greedy and with prompt lookup. All are asked the same.

What is counted is the same for all. The first forward pass reads the prompt; what it writes and how long it takes
count in nothing. Then tokens, forward passes and seconds are counted up to the last token:

    ours            the engine's own statistics of a reply, as `bench` shows them
    transformers    a streamer stamps the time of each pass' tokens, a hook on the model counts the passes

transformers gets what it runs best with: sdpa, inference mode, the same weights, dtype, threads and prompt ids,
an attention mask, and a generation config without the extra work of processors that this comparison does not need.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from time import perf_counter
from typing import Any

import torch
from transformers import AutoModelForCausalLM, GenerationConfig
from transformers.generation.streamers import BaseStreamer

from app.conversation.decoder_comparison import Lane
from app.engine.loading import LoadedModel
from app.engine.prompt import encode
from app.engine.session import NeverStop, Session, no_progress
from app.messages import Event, Finished, ModelChoice, ModelFolder, Options, Piece, Prompt, Request

LOOKUP_TOKENS = 10
_make_config: Any = GenerationConfig  # untyped there


@dataclass(frozen=True, slots=True)
class Run:
    """One reply: all its tokens, and the passes, tokens and seconds behind the first pass."""

    token_ids: tuple[int, ...]
    passes: int
    tokens: int
    seconds: float

    @property
    def tokens_per_second(self) -> float:
        """Speed of decoding; 0.0 for a reply of one pass, which has none."""
        return self.tokens / self.seconds if self.passes and self.seconds else 0.0


@dataclass(frozen=True, slots=True)
class Contestant:
    """A name, and what answers a prompt."""

    name: str
    answer: Callable[[Prompt, Options], Run]


def our_lane(lane: Lane, session: Session, choice: ModelChoice) -> Contestant:
    """One of the app's decoders, through the session that answers the app's requests."""

    def answer(prompt: Prompt, options: Options) -> Run:
        request = Request(choice, prompt, replace(options, decoding=lane.decoding))
        return _run_of(list(session.events(request, no_progress, NeverStop())))

    return Contestant(lane.name, answer)


def transformers_lanes(loaded: LoadedModel, folder: ModelFolder) -> list[Contestant]:
    """generate, greedy (or sampled where the prompt asks for it), and the same with prompt lookup."""
    model = _read_model(loaded, folder)
    extras: dict[str, dict[str, int]] = {
        "transformers": {},
        "transformers prompt lookup": {"prompt_lookup_num_tokens": LOOKUP_TOKENS},
    }
    return [
        Contestant(name, partial(_generate, model, loaded, extra=extra)) for name, extra in extras.items()
    ]


class Stopwatch(BaseStreamer):
    """Stamps the tokens of each pass, the prompt's first."""

    def __init__(self) -> None:
        self.stamps: list[tuple[float, int]] = []

    def put(self, value: Any) -> None:
        """Tokens [1, n] or [n] that one pass wrote."""
        self.stamps.append((perf_counter(), value.numel()))

    def end(self) -> None:
        """Nothing is left to do."""


@dataclass(slots=True)
class Passes:
    """Counts a model's forward passes."""

    count: int = field(default=0)

    def __call__(self, *_arguments: Any) -> None:
        self.count += 1


def _read_model(loaded: LoadedModel, folder: ModelFolder) -> Any:
    read: Any = AutoModelForCausalLM.from_pretrained
    dtype = getattr(torch, loaded.info.dtype)
    model = read(folder.path, dtype=dtype, attn_implementation="sdpa", local_files_only=True)
    # Else generate fills what is left open here from the model's own file, top-k 50 among it.
    model.generation_config = _make_config()
    return model.requires_grad_(False).train(False).to(loaded.info.device)


@torch.inference_mode()
def _generate(
    model: Any, loaded: LoadedModel, prompt: Prompt, options: Options, extra: dict[str, int]
) -> Run:
    known = encode(loaded.tokenizer, prompt, loaded.info.context)
    ids = torch.tensor([known], device=model.device)
    stopwatch, passes = Stopwatch(), Passes()
    hook = model.register_forward_pre_hook(passes)
    torch.manual_seed(options.sampling.seed)
    try:
        said = model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            generation_config=_config(loaded, options, len(known), extra),
            streamer=stopwatch,
        )
    finally:
        hook.remove()
    return _run_by(stopwatch, passes, tuple(said[0, len(known) :].tolist()))


def _config(loaded: LoadedModel, options: Options, length: int, extra: dict[str, int]) -> Any:
    ends = [] if options.ignore_eos else sorted(loaded.eos_ids)
    temperature = options.sampling.temperature
    sampled = (
        {"do_sample": True, "temperature": temperature, "top_k": 0} if temperature else {"do_sample": False}
    )
    return _make_config(
        max_new_tokens=min(options.max_new_tokens, loaded.info.context - length),
        eos_token_id=ends or None,
        pad_token_id=ends[0] if ends else 0,
        **sampled,
        **extra,
    )


def _run_by(stopwatch: Stopwatch, passes: Passes, ids: tuple[int, ...]) -> Run:
    """The stamps without the prompt's and the first pass'."""
    first, *rest = stopwatch.stamps[1:]
    if passes.count != len(rest) + 1 or first[1] + sum(number for _, number in rest) != len(ids):
        raise RuntimeError(
            f"each pass should stamp its tokens once, got {passes.count} passes, {len(ids)} tokens and "
            f"the stamps {[number for _, number in stopwatch.stamps]}"
        )
    seconds = rest[-1][0] - first[0] if rest else 0.0
    return Run(ids, len(rest), sum(number for _, number in rest), seconds)


def _run_of(events: list[Event]) -> Run:
    finished = events[-1]
    if not isinstance(finished, Finished):
        raise ValueError(f"a reply ends with Finished, got {finished!r}")
    numbers = finished.statistics
    ids = tuple(token for event in events if isinstance(event, Piece) for token in event.token_ids)
    return Run(ids, numbers.steps, numbers.tokens, numbers.seconds)
