"""Whole models with fused layers: they say what the model says, and lookahead says what plain says."""

from contextlib import AbstractContextManager, nullcontext

import pytest
import torch

from app.engine.block.block import chain_block
from app.engine.decoders.plain import plain
from app.engine.graphs.graph_trial import tried_graphs
from app.engine.layers.fused_modules import FusedLayer, LayerKernels
from app.engine.layers.quantisation import quantise
from app.engine.runner.model_config import Rotary
from app.engine.runner.runner import BlockRunner
from app.values.messages import Decoding, Sampling
from app.values.quantisation_sizes import Quantisation
from tests.engine.architectures import BRANCHING, Architecture, architecture, llama_dynamic
from tests.engine.attention.cases import DEVICE
from tests.engine.layers.fusing import fused_runner, named
from tests.engine.oracle import Oracle, branching, half_right
from tests.engine.path_attention import BY_PATHS
from tests.engine.replies import GREEDY, Zoo, load, numbers, says_plainly, with_pool, write
from tests.engine.simulated_graphs import SimulatedCapturer
from tests.support.written_out import WrittenOut
from tests.tiers import some

# In its interpreter numpy warns of what a card does without a word.
pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered in exp")

ALL = (*BRANCHING, llama_dynamic(32))
OURS = {
    "llama": ("llama", torch.float32),
    "llama in bfloat16": ("llama", torch.bfloat16),
    "one layer in bfloat16": ("one layer", torch.bfloat16),
    "qwen3 in float16": ("qwen3", torch.float16),
    "gemma2": ("gemma2", torch.float32),
    "gemma2 in bfloat16": ("gemma2", torch.bfloat16),
}
"""Models whose layers triton's interpreter runs: each of two layers takes ten seconds."""
ONE_LAYER = architecture("one layer", "Llama", num_hidden_layers=1)


def kernels() -> LayerKernels:
    """Ours, as this device can run them."""
    pytest.importorskip("triton", reason="triton is not installed")
    from app.engine.layers.triton_kernels import on_device

    return on_device(DEVICE)


def logits_of(runner: BlockRunner, prefix: int = 20, count: int = 9) -> torch.Tensor:
    """What is said of a block behind a prefix."""
    runner.forget()
    text = numbers(prefix + count)
    for _ in runner.prefill(text[:prefix]):
        pass
    return runner.forward(chain_block(text[prefix:], prefix, tuple(range(count)))).clone()


@pytest.mark.parametrize("architecture", ALL, ids=str)
def test_written_out_they_give_the_same_logits(zoo: Zoo, architecture: Architecture) -> None:
    """So what is replaced is wired as it was; the kernels are held to the same operations elsewhere.

    The last bits may differ: with AVX-512 torch rounds SiLU in another way on part of a joined product."""
    loaded = zoo.loaded(architecture)
    runner = loaded.runner
    assert isinstance(runner, BlockRunner)
    fused = logits_of(fused_runner(loaded, WrittenOut()))
    torch.testing.assert_close(fused, logits_of(runner), rtol=0, atol=1e-4)


@pytest.mark.parametrize(
    "architecture", some({str(each): each for each in ALL}, "llama", "gemma3", str(ALL[-1]))
)
def test_lookahead_says_what_plain_says(zoo: Zoo, architecture: Architecture) -> None:
    runner = fused_runner(zoo.loaded(architecture), WrittenOut())
    prompt = numbers(20)
    expected = says_plainly(zoo.runner(architecture), prompt, limit=24)
    assert says_plainly(runner, prompt, limit=24).tokens == expected.tokens
    runner.forget()
    oracle = Oracle((*prompt, *expected.tokens), (branching,))
    said = write(runner, prompt, with_pool(oracle, Decoding(window=3, ngram=4)), limit=24)
    assert said.tokens == expected.tokens
    assert len(said.steps) < len(expected.steps)


@pytest.mark.parametrize("case", some(OURS, "one layer in bfloat16"))
def test_with_our_kernels_models_say_what_they_said(case: tuple[str, torch.dtype]) -> None:
    name, dtype = case
    made = ONE_LAYER if name == ONE_LAYER.name else named(name)
    loaded = load(made.make().to(DEVICE, dtype))
    assert isinstance(loaded.runner, BlockRunner)
    runners = fused_runner(loaded, kernels()), loaded.runner
    said, expected = (logits_of(runner, prefix=4, count=2) for runner in runners)
    error = (said.float() - expected.float()).abs().max() / expected.float().std()
    assert error < {torch.float32: 1e-4, torch.float16: 0.03, torch.bfloat16: 0.15}[dtype]


@pytest.mark.thorough
@pytest.mark.parametrize("sampling", [GREEDY, Sampling(temperature=0.9, seed=3)], ids=["greedy", "sampled"])
@pytest.mark.parametrize("name", ["llama", "qwen3"])
def test_in_float32_lookahead_by_our_kernels_says_what_plain_says(name: str, sampling: Sampling) -> None:
    runner = fused_runner(load(named(name).make().to(DEVICE)), kernels())
    prompt = numbers(20)
    expected = says_plainly(runner, prompt, sampling, limit=8)
    for drafts in (branching, half_right):
        runner.forget()
        oracle = Oracle((*prompt, *expected.tokens), (drafts,))
        said = write(runner, prompt, with_pool(oracle, Decoding(window=3, ngram=4)), sampling, limit=8)
        assert said.tokens == expected.tokens


@pytest.mark.parametrize("quantisation", ["int8", "int4"])
def test_quantised_layers_are_fused_as_well(quantisation: Quantisation) -> None:
    from tests.engine.layers.test_quantisation import make_model

    model = make_model(torch.bfloat16)
    assert quantise(model, quantisation, DEVICE)
    loaded = load(model.to(DEVICE))
    assert isinstance(loaded.runner, BlockRunner)
    runner = fused_runner(loaded, WrittenOut())
    assert any(isinstance(module, FusedLayer) for module in runner.model.modules())
    assert torch.equal(logits_of(runner), logits_of(loaded.runner))


class Visible(WrittenOut):
    """Its operations are torch's to see, so that a tape can repeat them."""

    def _one(self, name: str) -> AbstractContextManager[None]:
        self.calls.append(name)
        return nullcontext()


@pytest.mark.parametrize("name", ["llama", "gemma3", "phi3"])
def test_recorded_steps_say_the_same(zoo: Zoo, name: str) -> None:
    eager, capturer = fused_runner(zoo.loaded(named(name)), Visible()), SimulatedCapturer()
    steps = tried_graphs(eager.model, BY_PATHS, Rotary("fixed", eager.context), capturer, eager.context)
    assert steps.note == ""
    runner = BlockRunner(eager.model, eager.context, eager._rotary, BY_PATHS, steps)
    prompt = numbers(20)
    expected = says_plainly(eager, prompt, limit=12)
    assert write(runner, prompt, plain, limit=12).tokens == expected.tokens
    assert capturer.replays > 5
