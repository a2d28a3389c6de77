"""Drives a runner and a decoder to the end of a reply and keeps what they said."""

from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import torch
from transformers import PreTrainedModel

from app.engine.block.step_profile import Buckets
from app.engine.decoders.lookahead_decoder import lookahead
from app.engine.decoders.plain import plain
from app.engine.loading.loading import LoadedModel, prepare
from app.engine.lookahead.ngram_pool import Pool
from app.engine.lookahead.row_planner import DraftPlanner, FixedSizesPlanner
from app.engine.runner.model_runner import ModelRunner
from app.engine.runner.step import Decoder, FirstToken, Step
from app.engine.sampling.sampling import Sampler, make_sampler
from app.engine.session.reply_events import generate
from app.engine.text.stopping_criteria import ReplyText, StoppingCriteria
from app.values.messages import Decoding, ModelChoice, ModelFolder, Prefilling, Sampling, StopReason
from tests.engine.architectures import VOCABULARY, Architecture

GREEDY = Sampling()


@dataclass(frozen=True, slots=True)
class Reply:
    """All tokens of a reply, its steps, and why it ended."""

    tokens: tuple[int, ...]
    steps: tuple[Step, ...]
    reason: StopReason | None

    @property
    def longest_run(self) -> int:
        """The most tokens that one step committed."""
        return max((len(step.tokens) for step in self.steps), default=0)


class Letters:
    """Stands in for a tokenizer: token 5 is the text " 5", and no token ends a text."""

    eos_token_id = None

    def decode(self, ids: Iterable[int], **_options: object) -> str:
        return "".join(f" {token}" for token in ids)


def load(model: PreTrainedModel, tokenizer: Letters | None = None) -> LoadedModel:
    """The model as the app prepares one that it has read."""
    folder = ModelFolder(Path("models/zoo"), "zoo")
    return prepare(model, cast(Any, tokenizer or Letters()), folder, ModelChoice("zoo"))


class Zoo:
    """The prepared models of a test run, each made once."""

    def __init__(self) -> None:
        self._loaded: dict[str, LoadedModel] = {}

    def loaded(self, architecture: Architecture) -> LoadedModel:
        if architecture.name not in self._loaded:
            self._loaded[architecture.name] = load(architecture.make())
        return self._loaded[architecture.name]

    def runner(self, architecture: Architecture) -> ModelRunner:
        """The model's runner, knowing no prompt."""
        runner = self.loaded(architecture).runner
        runner.forget()
        return runner


def write(
    runner: ModelRunner,
    prompt: Iterable[int],
    decoder: Decoder,
    sampling: Sampling = GREEDY,
    *,
    limit: int = 28,
    eos: Iterable[int] = (),
    stops: tuple[str, ...] = (),
    buckets: Buckets = (),
) -> Reply:
    """One reply, from the prompt to its end."""
    return collect(
        stream(runner, prompt, decoder, sampling, limit=limit, eos=eos, stops=stops, buckets=buckets)
    )


def stream(
    runner: ModelRunner,
    prompt: Iterable[int],
    decoder: Decoder,
    sampling: Sampling = GREEDY,
    *,
    limit: int = 28,
    eos: Iterable[int] = (),
    stops: tuple[str, ...] = (),
    buckets: Buckets = (),
) -> Generator[Prefilling | FirstToken | Step, None, None]:
    """One reply as it is written; closing it stops it."""
    ids = tuple(prompt)
    stopper = StoppingCriteria(
        frozenset(eos), limit, runner.context - len(ids), ReplyText(Letters().decode, stops)
    )
    yield from generate(runner, ids, decoder, make_sampler(sampling), stopper, buckets)


def collect(events: Iterable[Prefilling | FirstToken | Step]) -> Reply:
    """What was said in all, so far as it goes."""
    tokens: tuple[int, ...] = ()
    steps: list[Step] = []
    reason: StopReason | None = None
    for event in events:
        match event:
            case FirstToken():
                tokens, reason = (event.token,), event.reason
            case Step():
                tokens, reason = (*tokens, *event.tokens), event.reason
                steps.append(event)
    return Reply(tokens, tuple(steps), reason)


def with_pool(pool: Pool, decoding: Decoding) -> Decoder:
    """Lookahead of fixed sizes with this pool in place of the chat's own."""
    return planned(FixedSizesPlanner(decoding), pool)


def planned(planner: DraftPlanner, pool: Pool) -> Decoder:
    def decode(
        runner: ModelRunner, tokens: list[int], sampler: Sampler, stopper: StoppingCriteria
    ) -> Iterator[Step]:
        return lookahead(runner, tokens, sampler, stopper, planner=planner, pool=pool)

    return decode


def numbers(length: int, seed: int = 0) -> tuple[int, ...]:
    """A prompt of random tokens."""
    generator = torch.Generator().manual_seed(seed)
    ids: list[int] = torch.randint(VOCABULARY, (length,), generator=generator).tolist()
    return tuple(ids)


def transformers_says(
    architecture: Architecture, prompt: tuple[int, ...], limit: int = 28
) -> tuple[int, ...]:
    """What transformers' own generate writes behind a prompt, greedily, until the limit."""
    model: Any = architecture.make()
    # Not its default attention, which leaves Gemma 2's soft cap out in 5.17.
    model.set_attn_implementation("eager")
    ids = torch.tensor([prompt])
    said = model.generate(
        ids,
        attention_mask=torch.ones_like(ids),
        do_sample=False,
        max_new_tokens=limit,
        min_new_tokens=limit,
        pad_token_id=0,
        use_cache=architecture.use_cache,
    )
    tokens: list[int] = said[0, len(prompt) :].tolist()
    return tuple(tokens)


def says_plainly(
    runner: ModelRunner,
    prompt: Iterable[int],
    sampling: Sampling = GREEDY,
    limit: int = 28,
    buckets: Buckets = (),
) -> Reply:
    """The reference: plain decoding, cold."""
    runner.forget()
    return write(runner, prompt, plain, sampling, limit=limit, buckets=buckets)


def reference(
    runner: ModelRunner, prompt: Iterable[int], sampling: Sampling = GREEDY, limit: int = 28
) -> Reply:
    """What `says_plainly` says, said once for all tests that hold a decoder against it. The runner forgets."""
    said = _reference(runner, tuple(prompt), sampling, limit)
    runner.forget()
    return said


@cache
def _reference(runner: ModelRunner, prompt: tuple[int, ...], sampling: Sampling, limit: int) -> Reply:
    return says_plainly(runner, prompt, sampling, limit)


def longest_repetition(tokens: Iterable[int]) -> int:
    """How often a token follows itself at most: 7 7 7 2 -> 3."""
    longest = run = 1
    for before, token in pairwise(tokens):
        run = run + 1 if token == before else 1
        longest = max(longest, run)
    return longest
