"""A recorded step brings the likeliest tokens of its rows, and those that they draw: a sampler launches nothing."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from app.engine.block.block import chain_block
from app.engine.block.context_entries import SUCCESSORS
from app.engine.decoders import make_decoder
from app.engine.decoders.plain import plain
from app.engine.graphs.captured_steps import EAGER_STEPS, GraphSteps
from app.engine.graphs.graph_trial import tried_graphs
from app.engine.runner.model_config import Rotary, rotary_of
from app.engine.runner.runner import BlockRunner
from app.engine.runner.step import Decoder
from app.engine.sampling.sampling import best_tokens, likeliest, make_sampler
from app.engine.session.reply_events import generate
from app.engine.text.stopping_criteria import StoppingCriteria
from app.values.messages import Decoding, Sampling
from tests.engine.architectures import LLAMA
from tests.engine.path_attention import BY_PATHS
from tests.engine.replies import collect, load, numbers, says_plainly
from tests.engine.simulated_graphs import SimulatedCapturer, SimulatedGraph, choose_by_torch

SAMPLED = Sampling(temperature=1.5, seed=4)
WIDE = make_decoder(Decoding("lookahead", window=4, ngram=3, guesses=4))


class Launches(TorchDispatchMode):
    """Counts the operations that compute something."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        results = func(*args, **(kwargs or {}))
        if not _storages(results) & _storages(args):
            self.names.append(str(func))
        return results


def _storages(values: Any) -> set[int]:
    tensors = [value for value in tree_leaves(values) if isinstance(value, Tensor)]
    return {tensor.untyped_storage().data_ptr() for tensor in tensors}


@pytest.fixture
def runner() -> BlockRunner:
    """Of a model that says each token as loudly as its neighbour, with recorded steps and a prompt."""
    model = LLAMA.make()
    weight = model.get_output_embeddings().weight.data
    weight[0::2] = weight[1::2]
    eager = load(model).runner
    assert isinstance(eager, BlockRunner)
    steps = GraphSteps(eager.model, BY_PATHS, SimulatedCapturer(), eager.context, choose_by_torch)
    rotary = rotary_of(eager.model.config.get_text_config(decoder=True), eager.context)
    return BlockRunner(eager.model, eager.context, rotary, BY_PATHS, steps)


def recorded_logits(runner: BlockRunner, rows: int) -> Tensor:
    """Of the first step of so many rows that comes from a tape."""
    list(runner.prefill(numbers(5)))
    block = chain_block(numbers(rows, seed=1), 5, tuple(range(rows)))
    return [runner.forward(block) for _ in range(EAGER_STEPS + 1)][-1]


@pytest.mark.parametrize(("rows", "count"), [(1, 1), (3, 1), (3, SUCCESSORS), (8, SUCCESSORS)])
def test_a_greedy_sampler_launches_nothing_and_says_what_it_says_of_any_logits(
    runner: BlockRunner, rows: int, count: int
) -> None:
    logits = recorded_logits(runner, rows)
    sampler = make_sampler(Sampling(), "cuda", runner.best_tokens)
    with Launches() as launched:
        found = sampler(logits, count)
    assert launched.names == []
    expected = make_sampler(Sampling(), "cuda")(logits, count)
    assert found.ids.tolist() == expected.ids.tolist()
    assert found.logits.tolist() == expected.logits.tolist()
    assert [found.choose(row, ()) for row in range(rows)] == [expected.choose(row, ()) for row in range(rows)]


def test_of_equal_logits_the_first_token_is_said(runner: BlockRunner) -> None:
    logits = recorded_logits(runner, 8)
    sampler = make_sampler(Sampling(), "cuda", runner.best_tokens)
    assert (sampler(logits, SUCCESSORS).ids[:, 0] % 2 == 0).all()
    assert sampler(logits, SUCCESSORS).ids[:, 0].tolist() == likeliest(logits, 1)[0][:, 0].tolist()


@pytest.mark.parametrize("sampling", [SAMPLED, Sampling(0.8, 20, 0.95, 0.05, seed=1)], ids=repr)
def test_a_sampler_launches_nothing_if_the_step_drew_its_tokens(
    runner: BlockRunner, sampling: Sampling
) -> None:
    sampler = runner.sampler(sampling)
    logits = recorded_logits(runner, 8)
    at = range(6, 14)
    drawing = make_sampler(sampling, "cuda", runner.best_tokens)
    with Launches() as launched:
        found = drawing(logits, SUCCESSORS, at)
    assert launched.names == []
    expected = make_sampler(sampling, "cuda")(logits, SUCCESSORS, at)
    assert sampler(logits, 1, at).choose(0, [0] * 6) == expected.choose(0, [0] * 6)
    assert found.ids.tolist() == expected.ids.tolist()
    histories = [[0] * place for place in at]
    pairs = [(found.choose(row, each), expected.choose(row, each)) for row, each in enumerate(histories)]
    assert all(one == other for one, other in pairs)


def test_other_logits_are_looked_through_anew(runner: BlockRunner) -> None:
    """Those of a prompt, of a step that was not recorded, of more tokens than a plain step looks for."""
    newest = recorded_logits(runner, 1)
    others = torch.randn((1, newest.shape[1]), generator=torch.Generator().manual_seed(0))
    assert torch.equal(runner.best_tokens(others, 1), best_tokens(others, 1))
    assert torch.equal(runner.best_tokens(newest, SUCCESSORS), best_tokens(newest, SUCCESSORS))
    eager = runner.forward(chain_block(numbers(3), 5, (0, 1, 2)))
    assert torch.equal(runner.best_tokens(eager, 1), best_tokens(eager, 1))
    (*_, progress) = runner.prefill(numbers(9))
    assert progress.done == 9
    assert torch.equal(runner.best_tokens(newest, 1), best_tokens(newest, 1))


@pytest.mark.parametrize("sampling", [Sampling(), SAMPLED], ids=["greedy", "sampled"])
@pytest.mark.parametrize("decoder", [plain, WIDE], ids=["plain", "lookahead"])
def test_replies_are_those_of_samplers_that_look_for_themselves(
    runner: BlockRunner, decoder: Decoder, sampling: Sampling
) -> None:
    prompt = numbers(20)
    stopper = StoppingCriteria(frozenset(), 28, runner.context - 20)
    sampler = make_sampler(sampling, "cuda", runner.best_tokens)
    said = collect(generate(runner, prompt, decoder, sampler, stopper)).tokens
    runner.forget()
    assert said == says_plainly(runner, prompt, sampling).tokens


@pytest.mark.parametrize(
    "sampling",
    [Sampling(1.5, seed=5), Sampling(1.5, 200, seed=4), Sampling(1.5, repetition_penalty=2, seed=4)],
)
def test_other_draws_than_the_step_made_are_made_anew(runner: BlockRunner, sampling: Sampling) -> None:
    """Those of another seed, with a top-k that steps are not recorded for, and with a penalty."""
    runner.sampler(SAMPLED if sampling.seed == 5 else sampling)
    logits, at = recorded_logits(runner, 8), range(6, 14)
    found = make_sampler(sampling, "cuda", runner.best_tokens)(logits, SUCCESSORS, at)
    expected = make_sampler(sampling, "cuda")(logits, SUCCESSORS, at)
    histories = [[0] * place for place in at]
    pairs = [(found.choose(row, each), expected.choose(row, each)) for row, each in enumerate(histories)]
    assert all(one == other for one, other in pairs)


class Forgetful(SimulatedCapturer):
    """Leaves out the last operation of a step: the likeliest tokens stay those of the recording."""

    def capture(self, work: Callable[[], None]) -> SimulatedGraph:
        tape = super().capture(work)
        tape.plays.pop()
        return tape


def test_a_graph_that_finds_other_tokens_than_its_logits_say_is_refused(runner: BlockRunner) -> None:
    fixed, capturer = Rotary("fixed", 1024), Forgetful()
    steps = tried_graphs(runner.model, BY_PATHS, fixed, capturer, 1024, choose=choose_by_torch)
    assert steps.note == "a graph gave other logits or tokens than a step without a graph"


def choose_never(*_inputs: Tensor) -> None:
    """Refuse to look for likeliest tokens."""
    raise RuntimeError("the search waits for the device")


def test_where_likeliest_tokens_cannot_be_recorded_steps_are_recorded_without(runner: BlockRunner) -> None:
    fixed, capturer = Rotary("fixed", 1024), SimulatedCapturer()
    steps = tried_graphs(runner.model, BY_PATHS, fixed, capturer, 1024, choose=choose_never)
    assert (type(steps), steps.note) == (GraphSteps, "")
    assert steps.best_tokens(1, 1) is None
    runner.steps = steps
    logits = recorded_logits(runner, 8)
    assert isinstance(steps, GraphSteps) and steps.num_graphs == 1
    found = make_sampler(Sampling(), "cuda", runner.best_tokens)(logits, SUCCESSORS)
    assert found.ids.tolist() == make_sampler(Sampling(), "cuda")(logits, SUCCESSORS).ids.tolist()
