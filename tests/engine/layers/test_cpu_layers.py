"""A decoder layer in one call has the bits of its parts, whatever the rows, the threads, the text before them."""

from functools import cache
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from torch import Tensor
from transformers import AutoModelForCausalLM, LlamaConfig, PreTrainedConfig, Qwen2Config, Qwen3Config

from app.engine.attention.native import MAX_ROWS
from app.engine.block.block import Block, chain_block
from app.engine.cpu_kernels import cpu_kernels
from app.engine.layers.cpu_layers import NativeLayer
from app.engine.layers.quantising import quantise
from app.engine.loading.loading import LoadedModel, prepare
from app.engine.runner.runner import BlockRunner
from app.values.messages import ModelChoice, ModelFolder
from tests.engine.replies import Letters, numbers

pytestmark = pytest.mark.skipif(cpu_kernels() is None, reason="there is no C compiler here")

SIZES = dict[str, Any](
    vocab_size=160,
    hidden_size=64,
    intermediate_size=104,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    max_position_embeddings=1024,
)
CONFIGS: dict[str, PreTrainedConfig] = {
    "llama": LlamaConfig(**SIZES),
    "qwen2, with a bias": Qwen2Config(**SIZES),
    "qwen3, with norms of heads": Qwen3Config(**SIZES, head_dim=24),
    "llama with gelu": LlamaConfig(**SIZES, hidden_act="gelu_pytorch_tanh"),
}


@cache
def loaded(name: str) -> LoadedModel:
    pytest.importorskip("torchao", reason="torchao is not installed")
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(CONFIGS[name]).requires_grad_(False).train(False)
    for parameter in model.parameters():
        parameter.normal_(0.1, 0.3)  # biases and norms of a new model are all alike
    weights = quantise(model, "int8", torch.device("cpu"))
    return prepare(
        model, cast(Any, Letters()), ModelFolder(Path("models/made"), "made"), ModelChoice("made"), weights
    )


def runner_of(name: str) -> BlockRunner:
    runner = loaded(name).runner
    assert isinstance(runner, BlockRunner)
    return runner


def layers(runner: BlockRunner) -> list[NativeLayer]:
    return [layer for layer in runner.model.modules() if isinstance(layer, NativeLayer)]


def logits_of(runner: BlockRunner, prefix: int, block: Block) -> Tensor:
    runner.forget()
    for _ in runner.prefill(numbers(prefix)):
        pass
    logits = runner.forward(block).clone()
    runner.commit((0,))
    return logits


@pytest.mark.parametrize("name", CONFIGS)
def test_layers_of_8_bits_are_one_call_each(name: str) -> None:
    assert len(layers(runner_of(name))) == 2
    assert "2 whole layers" in loaded(name).info.note("fused")


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize(("prefix", "rows"), [(1, 1), (31, 2), (32, 5), (300, 17), (513, MAX_ROWS)])
def test_it_has_the_bits_of_its_parts(
    name: str, prefix: int, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner = runner_of(name)
    block = chain_block(numbers(rows), prefix, tuple(range(rows)))
    found = [logits_of(runner, prefix, block)]
    torch.set_num_threads(2)
    try:
        found.append(logits_of(runner, prefix, block))
    finally:
        torch.set_num_threads(1)
    monkeypatch.setattr(NativeLayer, "forward", lambda self, *args, **named: self.layer(*args, **named))
    expected = logits_of(runner, prefix, block)
    assert all(torch.equal(each, expected) for each in found)


def test_more_rows_than_the_call_is_made_for_are_the_layers_own() -> None:
    runner, rows = runner_of("llama"), MAX_ROWS + 2
    text = numbers(20 + rows)
    for _ in runner.prefill(text[:20]):
        pass
    whole = runner.forward(chain_block(text[20:], 20, (rows - 1,))).clone()
    runner.forget()
    for _ in runner.prefill(text[:-1]):
        pass
    assert torch.allclose(whole, runner.forward(chain_block(text[-1:], 20 + rows - 1, (0,))), atol=1e-4)


def test_layers_of_float32_are_not_one_call() -> None:
    model = AutoModelForCausalLM.from_config(CONFIGS["llama"]).train(False)
    made = prepare(
        model,
        cast(Any, Letters()),
        ModelFolder(Path("models/made"), "made"),
        ModelChoice("made", attention="native"),
    )
    assert "residual sums" in made.info.note("fused")
    assert "whole layers" not in made.info.note("fused")
