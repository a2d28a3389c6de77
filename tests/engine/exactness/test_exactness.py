"""The central promise: every decoder says exactly what plain decoding says, on every architecture.

One table has all cases: architectures by backends by drafts by samplings. And the zoo is worth testing on: its
models say varied things, and the same ones every time.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any, cast

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from app.engine.block.step_profile import Buckets
from app.engine.decoders import make_decoder
from app.engine.decoders.lookahead_decoder import ReplyContext, make_lookahead
from app.engine.lookahead.jacobi_window import WindowSizer
from app.engine.lookahead.model_statistics import ModelStatistics
from app.engine.lookahead.row_planner import RowBudgetPlanner
from app.engine.runner.runner import BlockRunner
from app.engine.runner.step import Decoder
from app.values.messages import PRESETS, Decoding, Origin, Preset, Sampling
from tests.engine.architectures import (
    BRANCHING,
    GEMMA3,
    IN_DEPTH,
    LLAMA,
    OWN_ATTENTION,
    VOCABULARY,
    WINDOW,
    Architecture,
)
from tests.engine.oracle import Draft, Oracle, branching, half_right, right, wrong
from tests.engine.recurrent_architectures import CHAINED, ONE_OF_EACH, RECURRENT, TREES
from tests.engine.replies import (
    GREEDY,
    Reply,
    Zoo,
    longest_repetition,
    numbers,
    planned,
    reference,
    says_plainly,
    transformers_says,
    with_pool,
    write,
)
from tests.engine.simulated_graphs import SimulatedCapturer, recorded
from tests.engine.sources import SOURCES, knowing
from tests.tiers import Case, covering, examples, named, some

PROMPT = numbers(WINDOW + 18)
TWICE = numbers(WINDOW + 9, seed=5) * 2
"""So that there is something to look up."""
LENGTH = 24
"""Tokens of a reply of the table."""


@dataclass(frozen=True, slots=True)
class Drafts:
    """Makes a decoder from the whole text (prompt and reply) and the sampling, and checks the decoder's reply.

    With `times` 2 it replies once more with all that the first reply taught."""

    make: Callable[[tuple[int, ...], Sampling], Decoder]
    check: Callable[[Reply], bool] = lambda _reply: True
    times: int = 1


def decoders(*asked: Decoding, **others: Any) -> dict[str, Drafts]:
    """Decoders that know nothing of the text before they begin."""
    return {
        f"{one.decoder}-{one.window}-{one.ngram}-{one.guesses}-{one.rows}": of(one, **others) for one in asked
    }


def of(decoding: Decoding, **others: Any) -> Drafts:
    def make(_text: tuple[int, ...], sampling: Sampling) -> Decoder:
        return make_decoder(decoding, ReplyContext(ModelStatistics(VOCABULARY), sampling=sampling))

    return Drafts(make, **others)


def told(decoding: Decoding, *drafts: Draft, check: Callable[[Reply], bool] = lambda _reply: True) -> Drafts:
    """Lookahead whose pool knows the text, and drafts this of it, in turn."""
    return Drafts(lambda text, _sampling: with_pool(Oracle(text, drafts), decoding), check)


def from_source(source: Origin) -> Drafts:
    """Lookahead whose real pool knows the text from one source."""

    def make(text: tuple[int, ...], _sampling: Sampling) -> Decoder:
        return planned(RowBudgetPlanner(24, WindowSizer(0)), knowing(source, text, VOCABULARY))

    def check(said: Reply) -> bool:
        origins = {origin for step in said.steps for origin in step.origins}
        return origins == {source, "model"} and said.longest_run > 5

    return Drafts(make, check)


def auto(rows: int) -> Drafts:
    """Auto at this budget; the second time the text is known."""

    def check(said: Reply) -> bool:
        is_within = sum(step.rows for step in said.steps) <= rows * len(said.steps)
        return is_within and (rows < 8 or said.longest_run > 3)

    return of(Decoding("auto", rows=rows), check=check, times=2)


def is_accepted_in_runs(said: Reply) -> bool:
    """Six guesses and the model's own next token."""
    return said.longest_run == 7 and len(said.steps) < len(said.tokens) / 5


def are_chains(said: Reply) -> bool:
    return all(parent == row - 1 for step in said.steps for row, parent in enumerate(step.trace.parents))


@dataclass(frozen=True, slots=True)
class Backend:
    """How the model is run: by blocks padded to the buckets of the same text, or by recorded steps."""

    buckets: Buckets = ()
    is_recorded: bool = False


BACKENDS = {"eager": Backend(), "padded": Backend((4, 24, 64)), "recorded": Backend(is_recorded=True)}

RUNS = Decoding(window=3, ngram=7)
TWO = {"greedy": GREEDY, "T0.8": Sampling(temperature=0.8, top_k=20, seed=2)}
THREE = {**TWO, "penalised": Sampling(1.0, top_p=0.8, repetition_penalty=1.3, seed=3)}
SAMPLINGS = {
    **THREE,
    "T0.7-1": Sampling(temperature=0.7, seed=1),
    "T2.0-4": Sampling(temperature=2.0, min_p=0.05, repetition_penalty=1.2, seed=4),
    "T0.0-0": Sampling(repetition_penalty=1.3),
}
EVERY = tuple(map(str, BRANCHING))
BRANCHES, BOTH, TREED = named(BRANCHING), named((LLAMA, GEMMA3)), named(TREES)
CHAINS = named((*CHAINED, *OWN_ATTENTION))

SHAPES = ((5, 4, 8), (15, 5, 15), (1, 2, 1), (0, 4, 8), (7, 3, 0), (3, 6, 2))
FIXED = decoders(*(Decoding("lookahead", *shape) for shape in SHAPES))
ACCEPTED = {
    "right": told(RUNS, right, check=is_accepted_in_runs),
    "branching": told(RUNS, branching, check=is_accepted_in_runs),
}
MISLED = {
    "wrong": told(Decoding(window=4, ngram=5), wrong),
    "half right": told(Decoding(window=4, ngram=5), half_right, wrong),
    "mixed": told(Decoding(window=4, ngram=5), wrong, right, half_right, branching, wrong),
}
LINES = decoders(Decoding("prompt-lookup"), *(Decoding("jacobi", window=width) for width in (1, 6, 40)))
BUDGETS = {f"auto-{rows}": auto(rows) for rows in (1, 2, 8, 24, 64, 200)}
KNOWN = {f"from {source}": from_source(source) for source in SOURCES}
AUTHORS = decoders(*(Decoding("lookahead", *PRESETS[cast(Preset, name)]) for name in PRESETS), times=2)
PADDED = {
    "plain": of(Decoding("plain")),
    "branching": told(RUNS, branching, check=lambda said: said.longest_run == 7),
}
NARROW, WIDE = Decoding("lookahead", 2, 3, 1), Decoding("lookahead", 4, 3, 4)
RECORDED = {"plain": of(Decoding("plain")), "narrow": of(NARROW), "wide": of(WIDE)}
AS_CHAINS = decoders(
    Decoding("prompt-lookup"),
    Decoding("jacobi", window=6),
    Decoding("lookahead", 5, 4, 8),
    Decoding("auto", rows=8),
    Decoding("auto", rows=40),
    times=2,
    check=are_chains,
)
MISLED_CHAINS = {
    "wrong": told(Decoding(window=0, ngram=7), wrong),
    "half right": told(Decoding(window=0, ngram=7), half_right),
    "mixed": told(Decoding(window=0, ngram=7), half_right, wrong, wrong, right),
}


def is_default_of_chains(architecture: str, drafts: str, sampling: str) -> bool:
    is_chosen = architecture == "rwkv" or drafts in MISLED_CHAINS
    return is_chosen and architecture in ONE_OF_EACH and sampling == "T0.8"


def is_default_of_padded(architecture: str, drafts: str, sampling: str) -> bool:
    return (
        architecture in IN_DEPTH and sampling == "T0.8" and (drafts == "branching" or architecture == "llama")
    )


TABLE: tuple[Any, ...] = (
    # architectures, backend, prompt, drafts, samplings; what runs by default: a rule for its ids, or the
    # architectures that `few` takes once and those that it takes in depth
    (BRANCHES, "eager", PROMPT, FIXED, SAMPLINGS, (EVERY, ("llama", "gemma3"))),
    (BRANCHES, "eager", PROMPT, ACCEPTED, TWO, (EVERY, ("llama", "gemma3"))),
    (BRANCHES, "eager", PROMPT, MISLED, {"greedy": GREEDY}, (IN_DEPTH, ("llama", "gemma3"))),
    (BRANCHES, "eager", TWICE, LINES, THREE, (IN_DEPTH, ("gemma3",))),
    (BRANCHES, "eager", PROMPT, BUDGETS, THREE, (IN_DEPTH, ())),
    (BRANCHES, "eager", PROMPT, KNOWN, TWO, (IN_DEPTH, ())),
    (BOTH, "eager", PROMPT, AUTHORS, THREE, (tuple(BOTH), ("llama",))),
    (BRANCHES, "padded", PROMPT, PADDED, TWO, is_default_of_padded),
    (BRANCHES, "recorded", PROMPT, RECORDED, {"greedy": GREEDY}, lambda name, *_: name == "gpt-oss"),
    (TREED, "eager", TWICE, FIXED | ACCEPTED | MISLED | LINES | BUDGETS, THREE, (tuple(TREED), ())),
    (CHAINS, "eager", TWICE, AS_CHAINS | MISLED_CHAINS, THREE, is_default_of_chains),
)


def few(once: Case, deep: Case, drafts: Case, samplings: Case) -> set[Case]:
    """Return each architecture of `once` and each of the drafts once, with one of two samplings so that cases share
    what plain decoding wrote; of the `deep` architectures also each pair of values."""
    chosen = covering([once, drafts, samplings[:2]], ())
    return chosen | covering([deep, drafts, samplings]) if deep else chosen


def cases() -> Iterator[Any]:
    """Every case of the table."""
    for architectures, backend, prompt, drafts, samplings, default in TABLE:
        values = architectures, drafts, samplings
        chosen = set() if callable(default) else few(*default, tuple(drafts), tuple(samplings))
        for ids in product(*values):
            is_default = default(*ids) if callable(default) else ids in chosen
            yield pytest.param(
                *(architectures[ids[0]], BACKENDS[backend], prompt, drafts[ids[1]], samplings[ids[2]]),
                id="-".join((ids[0], backend, *ids[1:])),
                marks=() if is_default else pytest.mark.thorough,
            )


@pytest.mark.parametrize(("architecture", "backend", "prompt", "drafts", "sampling"), list(cases()))
def test_it_writes_what_plain_writes(
    zoo: Zoo,
    architecture: Architecture,
    backend: Backend,
    prompt: tuple[int, ...],
    drafts: Drafts,
    sampling: Sampling,
) -> None:
    runner, capturer = zoo.runner(architecture), SimulatedCapturer()
    expected = reference(runner, prompt, sampling, LENGTH)
    if backend.is_recorded:
        assert isinstance(runner, BlockRunner)
        runner, steps = recorded(runner, capturer)
    decoder = drafts.make((*prompt, *expected.tokens), sampling)
    for _ in range(drafts.times):
        runner.forget()
        said = write(runner, prompt, decoder, sampling, limit=LENGTH, buckets=backend.buckets)
        assert (said.tokens, said.reason) == (expected.tokens, expected.reason)
    assert drafts.check(said)
    if backend.is_recorded:
        assert (steps.note, steps.num_graphs > 0, capturer.replays > 5) == ("", True, True)


LIMIT = 20

both = pytest.mark.parametrize("architecture", (LLAMA, GEMMA3), ids=str)
drawn = examples(25, derandomize=True)

prompts = st.lists(st.integers(0, VOCABULARY - 1), min_size=1, max_size=40).map(tuple)
decodings = st.builds(
    Decoding,
    st.just("lookahead"),
    window=st.integers(0, 20),
    ngram=st.integers(2, 9),
    guesses=st.integers(0, 20),
)
drawn_samplings = st.one_of(
    st.just(Sampling()),
    st.builds(
        Sampling,
        temperature=st.sampled_from((0.0, 0.3, 1.0, 3.0)),
        top_k=st.sampled_from((0, 1, 7, 200)),
        top_p=st.sampled_from((0.1, 0.9, 1.0)),
        min_p=st.sampled_from((0.0, 0.02, 0.5)),
        repetition_penalty=st.sampled_from((0.8, 1.0, 1.5)),
        seed=st.integers(0, 2**63 - 1),
    ),
)
mixtures = st.lists(st.sampled_from((right, half_right, wrong, branching)), min_size=1, max_size=5).map(tuple)


@both
@drawn
@given(prompt=prompts, decoding=decodings, sampling=drawn_samplings)
def test_lookahead_equals_plain(
    zoo: Zoo, architecture: Architecture, prompt: tuple[int, ...], decoding: Decoding, sampling: Sampling
) -> None:
    runner = zoo.runner(architecture)
    expected = says_plainly(runner, prompt, sampling, limit=LIMIT)
    runner.forget()
    said = write(runner, prompt, make_lookahead(decoding), sampling, limit=LIMIT)
    assert (said.tokens, said.reason) == (expected.tokens, expected.reason)


@both
@drawn
@given(prompt=prompts, decoding=decodings, sampling=drawn_samplings, drafts=mixtures)
def test_lookahead_equals_plain_whatever_is_drafted(
    zoo: Zoo,
    architecture: Architecture,
    prompt: tuple[int, ...],
    decoding: Decoding,
    sampling: Sampling,
    drafts: tuple[Draft, ...],
) -> None:
    runner = zoo.runner(architecture)
    expected = says_plainly(runner, prompt, sampling, limit=LIMIT)
    runner.forget()
    oracle = Oracle((*prompt, *expected.tokens), drafts)
    said = write(runner, prompt, with_pool(oracle, decoding), sampling, limit=LIMIT)
    assert said.tokens == expected.tokens


@pytest.mark.parametrize("architecture", some(named((*BRANCHING, *OWN_ATTENTION, *RECURRENT)), *IN_DEPTH))
def test_greedy_text_is_varied(architecture: Architecture) -> None:
    said = transformers_says(architecture, numbers(30), limit=64)
    assert len(set(said)) >= 12
    assert longest_repetition(said) <= 8


def test_a_model_has_the_same_weights_each_time_and_leaves_the_dice_alone() -> None:
    before = torch.random.get_rng_state()
    first, second = (BRANCHING[0].make().state_dict() for _ in range(2))
    assert all(torch.equal(weight, second[name]) for name, weight in first.items())
    assert torch.equal(torch.random.get_rng_state(), before)
