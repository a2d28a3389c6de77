"""Widths are sorted by what they write; drafts, neighbours and the border must leave no trace."""

from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import LlamaForCausalLM

from app.engine.block.step_profile import Buckets
from app.engine.measuring.same_bits import (
    agree,
    group_by_bits,
    has_experts,
    layers_with_rows,
    read_layers,
    read_text,
)
from app.engine.runner.runner import BlockRunner
from tests.engine.architectures import BRANCHING, Architecture
from tests.engine.replies import load, numbers
from tests.engine.tiny import tiny_config

EXPERTS = {"mixtral", "gpt-oss", "qwen2-moe", "deepseek-v3"}


@pytest.mark.parametrize(
    ("kinds", "bucket_sets"),
    [
        ({1: "a", 4: "b", 8: "b", 16: "c"}, ((1,), (4, 8), (16,))),
        ({1: "a", 4: "a", 8: "a", 16: "a"}, ((1, 4, 8, 16),)),
        ({1: "a", 4: "b", 8: "a", 16: "b"}, ((1, 8), (4, 16))),
        ({1: "", 4: "a", 8: "", 16: "a"}, ((4, 16),)),
        ({1: "", 4: ""}, ()),
        ({}, ()),
    ],
)
def test_widths_that_write_the_same_are_a_class(
    kinds: dict[int, str], bucket_sets: tuple[Buckets, ...]
) -> None:
    def read(bucket: int) -> list[Tensor]:
        # The wider, the more tokens are read; a kind that is not batch-invariant writes nothing.
        return [torch.full((bucket, 2), ord(kinds[bucket]))] if kinds[bucket] else []

    assert group_by_bits(tuple(kinds), read) == bucket_sets


def test_readings_agree_as_far_as_both_go() -> None:
    long, short = torch.arange(8.0).reshape(4, 2), torch.arange(4.0).reshape(2, 2)
    assert agree([long, short], [short, long])
    assert not agree([long, short], [short, short + 1])


@pytest.mark.parametrize("architecture", BRANCHING, ids=str)
def test_models_with_experts_are_recognised(architecture: Architecture) -> None:
    assert has_experts(architecture.make()) == (architecture.name in EXPERTS)


@pytest.fixture(scope="module")
def half() -> BlockRunner:
    torch.manual_seed(0)
    model = LlamaForCausalLM(tiny_config(128)).requires_grad_(False).train(False).bfloat16()
    runner = load(model).runner
    assert isinstance(runner, BlockRunner)
    return runner


@pytest.mark.parametrize("bucket", [1, 2, 7, 16])
def test_a_steady_width_writes_logits_keys_and_values_of_every_token(half: BlockRunner, bucket: int) -> None:
    said = read_text(half, numbers(40), 24, bucket)
    tokens = min(3 * bucket, 16)
    assert [part.shape for part in said] == [(tokens, 128), *[(tokens, 16)] * 4]


def test_a_model_whose_rows_notice_each_other_writes_nothing() -> None:
    class Nosy(LlamaForCausalLM):  # type: ignore[no-untyped-call]
        """Adds to each row a little of all the others."""

        is_nosy = False

        def forward(self, *ids: Tensor, **inputs: Any) -> Any:
            output = super().forward(*ids, **inputs)
            if self.is_nosy:
                output.logits = output.logits + output.logits.mean(dim=1, keepdim=True)
            return output

    model = Nosy(tiny_config(128)).requires_grad_(False).train(False)
    runner = load(model).runner
    assert isinstance(runner, BlockRunner)
    assert read_text(runner, numbers(40), 24, 8) != []
    model.is_nosy = True
    assert read_text(runner, numbers(40), 24, 8) == []


def test_one_layer_of_each_kind_and_shape_is_looked_at(half: BlockRunner) -> None:
    layers = layers_with_rows(half, numbers(40))
    shapes = [tuple(layer.weight.shape) for layer, _ in layers if hasattr(layer, "weight")]
    # Of two layers: the norm, q and o alike, k and v alike, gate and up alike, down; and the head.
    assert sorted(shapes) == [(16, 32), (32,), (32, 32), (32, 48), (48, 32), (128, 32)]
    assert all(
        layer.weight.shape[0] * len(rows) >= 60_000 for layer, rows in layers if hasattr(layer, "weight")
    )


def test_a_layer_says_the_same_of_its_rows_in_blocks_of_any_width() -> None:
    torch.manual_seed(0)
    layer, rows = torch.nn.Linear(8, 4, dtype=torch.float64), torch.randn(10, 8, dtype=torch.float64)
    for bucket, read in ((1, 10), (3, 9), (10, 10), (16, 32)):
        (said,) = read_layers([(layer, rows)], bucket)
        assert len(said) >= min(read, 10)
        torch.testing.assert_close(said[: min(read, 10)], layer(rows)[: min(read, 10)])


@pytest.mark.parametrize("name", ["qwen3", "gemma3"])
def test_norms_of_queries_and_keys_are_looked_at_too(name: str) -> None:
    """Their rows have heads: [1, T, heads, size]."""
    runner = load(next(each for each in BRANCHING if each.name == name).make().bfloat16()).runner
    assert isinstance(runner, BlockRunner)
    layers = [(layer, rows[:9]) for layer, rows in layers_with_rows(runner, numbers(12))]
    assert all(len(each) == 8 for each in read_layers(layers, 4))
    dimensions = {rows.dim() for _, rows in layers}
    assert dimensions == ({2, 3} if name == "qwen3" else {2})


def test_looking_leaves_no_hooks(half: BlockRunner) -> None:
    layers_with_rows(half, numbers(8))
    assert not any(layer._forward_pre_hooks for layer in half.model.modules())
