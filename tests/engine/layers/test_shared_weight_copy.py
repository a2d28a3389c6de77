"""A shared-weight copy has every weight and all state of its model; only the replaced modules are others."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from app.engine.layers.replacements import copy_with
from tests.engine.architectures import BRANCHING, LLAMA, Architecture, llama_dynamic


class Doubled(nn.Module):
    """Says twice what the Linear says."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.linear = linear

    def forward(self, states: Tensor) -> Tensor:
        return 2 * nn.functional.linear(states, self.linear.weight, self.linear.bias)


class Same(nn.Module):
    """Says what the Linear says."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.weight, self.bias = linear.weight, linear.bias

    def forward(self, states: Tensor) -> Tensor:
        return nn.functional.linear(states, self.weight, self.bias)


def linears_of(model: nn.Module) -> list[nn.Linear]:
    return [module for module in model.modules() if type(module) is nn.Linear]


def copied(model: PreTrainedModel, replace: Callable[[nn.Linear], nn.Module]) -> PreTrainedModel:
    """The model with each Linear replaced."""
    return copy_with(model, {linear: replace(linear) for linear in linears_of(model)})


@pytest.mark.parametrize("architecture", BRANCHING, ids=str)
def test_a_copy_says_what_the_model_says(architecture: Architecture) -> None:
    model = architecture.make()
    copy, ids = copied(model, Same), torch.arange(3, 30)[None]
    assert torch.equal(copy(ids).logits, model(ids).logits)
    assert sum(isinstance(module, Same) for module in copy.modules()) == len(linears_of(model))
    assert linears_of(copy) == []


def test_the_model_itself_stays_as_it_is() -> None:
    model, ids = LLAMA.make(), torch.arange(3, 30)[None]
    before, kinds = model(ids).logits, [type(module) for module in model.modules()]
    copy = copied(model, Doubled)
    assert [type(module) for module in model.modules()] == kinds
    assert torch.equal(model(ids).logits, before)
    assert not torch.equal(copy(ids).logits, before)


def test_no_weight_is_kept_twice() -> None:
    model: Any = LLAMA.make()
    copy: Any = copied(model, Same)
    ours = {tensor.data_ptr() for tensor in (*copy.parameters(), *copy.buffers())}
    assert ours == {tensor.data_ptr() for tensor in (*model.parameters(), *model.buffers())}
    assert copy.lm_head.weight is model.lm_head.weight
    assert copy.model.embed_tokens is model.model.embed_tokens
    assert copy.model.norm is model.model.norm
    assert copy.config is model.config


def test_a_tied_head_stays_tied() -> None:
    model: Any = next(each for each in BRANCHING if each.name == "llama").make()
    model.lm_head.weight = model.model.embed_tokens.weight
    copy: Any = copied(model, Same)
    assert copy.lm_head.weight is copy.model.embed_tokens.weight is model.model.embed_tokens.weight


def test_a_rotary_table_that_changes_does_so_for_both() -> None:
    model: Any = llama_dynamic(32).make()
    copy: Any = copied(model, Same)
    model(torch.arange(60)[None])
    assert copy.model.rotary_emb is model.model.rotary_emb
