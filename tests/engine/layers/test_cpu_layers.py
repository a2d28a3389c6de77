"""Decoder layers in one call have the bits of their parts, whatever the rows, the threads, the text before them."""

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
from app.engine.layers.cpu_layers import NativeDecoder, NativeLayer
from app.engine.layers.quantisation import quantise
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
def test_layers_of_8_bits_are_one_call(name: str) -> None:
    assert len(layers(runner_of(name))) == 2
    assert isinstance(runner_of(name).model.get_decoder(), NativeDecoder)
    assert "2 whole layers, 1 whole decoder" in loaded(name).info.note("fused")


def by_layers(patch: pytest.MonkeyPatch) -> None:
    """Let decoders run their layers one by one."""
    patch.setattr(NativeDecoder, "forward", lambda self, *args, **named: self.decoder(*args, **named))


def by_parts(patch: pytest.MonkeyPatch) -> None:
    """Let decoders run their layers part by part."""
    by_layers(patch)
    patch.setattr(NativeLayer, "forward", lambda self, *args, **named: self.layer(*args, **named))


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
    by_layers(monkeypatch)
    found.append(logits_of(runner, prefix, block))
    by_parts(monkeypatch)
    expected = logits_of(runner, prefix, block)
    assert all(torch.equal(each, expected) for each in found)


def texts_of(runner: BlockRunner) -> list[Tensor]:
    """Read two texts in turn, in caches of their own, one of which grows and is rewound; return all logits."""
    other = runner.with_small_cache()
    found: list[Tensor] = []
    for one in (runner, other):
        one.forget()
        for _ in one.prefill(numbers(500)):
            pass
    for begin in (500, 501, 502, 503, 501, 502):
        for one in (runner, other):
            one.rewind(begin)
            found.append(one.forward(chain_block(numbers(30), begin, tuple(range(30)))).clone())
            one.commit((0,))
    return found


def test_caches_may_alternate_and_grow_and_be_rewound(monkeypatch: pytest.MonkeyPatch) -> None:
    runner = runner_of("llama")
    found = texts_of(runner)
    by_parts(monkeypatch)
    assert all(torch.equal(*pair) for pair in zip(found, texts_of(runner), strict=True))


def test_hooks_of_a_layer_are_called() -> None:
    runner, seen = runner_of("llama"), list[Tensor]()
    block = chain_block(numbers(3), 20, (0, 1, 2))
    expected = logits_of(runner, 20, block)
    hook = layers(runner)[0].register_forward_hook(lambda _module, _inputs, output: seen.append(output))
    try:
        assert torch.equal(logits_of(runner, 20, block), expected)
    finally:
        hook.remove()
    assert [states.shape[1] for states in seen] == [20, 3]


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
