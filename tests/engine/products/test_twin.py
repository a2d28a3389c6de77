"""A twin shares every weight and all state with its model; its Linears alone are others."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from app.engine.block import chain_block
from app.engine.loading import LoadedModel
from app.engine.products.twin import num_linears, twin_of
from tests.engine.products.twins import with_twin
from tests.engine.replies import load
from tests.engine.zoo import BRANCHING, LLAMA, Architecture, llama_dynamic


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


@pytest.mark.parametrize("architecture", BRANCHING, ids=str)
def test_a_twin_says_what_the_model_says(architecture: Architecture) -> None:
    model = architecture.make()
    twin, ids = twin_of(model, Same), torch.arange(3, 30)[None]
    assert torch.equal(twin(ids).logits, model(ids).logits)
    assert sum(isinstance(module, Same) for module in twin.modules()) == num_linears(model)
    assert num_linears(twin) == 0


def test_the_model_itself_stays_as_it_is() -> None:
    model, ids = LLAMA.make(), torch.arange(3, 30)[None]
    before, kinds = model(ids).logits, [type(module) for module in model.modules()]
    twin = twin_of(model, Doubled)
    assert [type(module) for module in model.modules()] == kinds
    assert torch.equal(model(ids).logits, before)
    assert not torch.equal(twin(ids).logits, before)


def test_no_weight_is_kept_twice() -> None:
    model: Any = LLAMA.make()
    twin: Any = twin_of(model, Same)
    ours = {tensor.data_ptr() for tensor in (*twin.parameters(), *twin.buffers())}
    assert ours == {tensor.data_ptr() for tensor in (*model.parameters(), *model.buffers())}
    assert twin.lm_head.weight is model.lm_head.weight
    assert twin.model.embed_tokens is model.model.embed_tokens
    assert twin.model.norm is model.model.norm
    assert twin.config is model.config


def test_a_tied_head_stays_tied() -> None:
    model: Any = next(each for each in BRANCHING if each.name == "llama").make()
    model.lm_head.weight = model.model.embed_tokens.weight
    twin: Any = twin_of(model, Same)
    assert twin.lm_head.weight is twin.model.embed_tokens.weight is model.model.embed_tokens.weight


def test_a_rotary_table_that_changes_does_so_for_both() -> None:
    model: Any = llama_dynamic(32).make()
    twin: Any = twin_of(model, Same)
    model(torch.arange(60)[None])
    assert twin.model.rotary_emb is model.model.rotary_emb


def test_layers_derived_from_linear_are_left_alone() -> None:
    class Special(nn.Linear):
        """Not a plain product, for all that is known."""

    model: Any = LLAMA.make()
    model.lm_head = Special(32, 128)
    twin: Any = twin_of(model, Doubled)
    assert type(twin.lm_head) is Special


def test_the_prompt_is_read_by_the_model_and_steady_steps_by_the_twin_alone() -> None:
    runner, calls = with_doubles(load(LLAMA.make()))
    prompt = (5, 6, 7)
    for _ in runner.prefill(prompt):
        pass
    runner.forward(chain_block((8,), 3, wanted=(0,)))
    assert calls == []
    runner.widths, runner.product = (4,), "ours"
    runner.forward(chain_block((8,), 3, wanted=(0,)))
    assert len(calls) == num_linears(runner.model)
    calls.clear()
    runner.product = "torch"
    runner.forward(chain_block((8,), 3, wanted=(0,)))
    assert calls == []


def with_doubles(loaded: LoadedModel) -> tuple[Any, list[int]]:
    """A runner whose twin counts its Linears' calls."""
    calls: list[int] = []

    class Counted(Same):
        def forward(self, states: Tensor) -> Tensor:
            calls.append(1)
            return super().forward(states)

    return with_twin(loaded, Counted), calls
