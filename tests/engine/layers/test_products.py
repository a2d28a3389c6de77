"""Products are joined where a trial agrees, over one copy of the weights."""

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from app.engine.layers import products
from app.engine.layers.products import JoinedProduct, SeparateProducts, join_products, joined_product
from app.engine.measuring.same_bits import layers_with_rows
from tests.engine.architectures import LLAMA
from tests.engine.layers.fusing import fused_runner
from tests.engine.replies import load, numbers
from tests.support.written_out import WrittenOut


class Holder(nn.Module):
    """What has products: three of one input."""

    def __init__(self, *sizes: int, bias: bool = False, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.linears = nn.ModuleList(nn.Linear(32, size, bias=bias, dtype=dtype) for size in sizes)
        self.products: nn.Module = SeparateProducts(*self.linears)


def rows(count: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn((1, count, 32), generator=torch.Generator().manual_seed(1)).to(dtype)


def storages(module: nn.Module) -> set[int]:
    return {each.untyped_storage().data_ptr() for each in module.parameters()}


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_joined_they_say_what_they_said(dtype: torch.dtype, bias: bool) -> None:
    model = Holder(48, 16, 16, bias=bias, dtype=dtype)
    expected = [linear(rows(5, dtype)) for linear in model.linears]
    assert join_products(model, [model]) == 1
    assert isinstance(model.products, JoinedProduct)
    for found, wanted in zip(model.products(rows(5, dtype)), expected, strict=True):
        torch.testing.assert_close(found, wanted)


def test_no_weight_is_kept_twice_and_the_parts_still_multiply() -> None:
    model = Holder(48, 16, 16, bias=True)
    expected = [linear(rows(2)) for linear in model.linears]
    join_products(model, [model])
    assert storages(model.linears) == storages(model.products) and len(storages(model)) == 2
    for linear, wanted in zip(model.linears, expected, strict=True):
        torch.testing.assert_close(linear(rows(2)), wanted)


class Twice(nn.Linear):
    """A Linear of another class."""

    def forward(self, states: Tensor) -> Tensor:
        return 2 * super().forward(states)


def test_what_is_no_plain_linear_stays_apart() -> None:
    other = Holder(16, 16)
    other.products = SeparateProducts(other.linears[0], Twice(32, 16, bias=False))
    mixed = Holder(16, 16)
    mixed.products = SeparateProducts(mixed.linears[0], nn.Linear(32, 16, bias=True))
    for model in (other, mixed):
        assert join_products(model, [model]) == 0
        assert isinstance(model.products, SeparateProducts)


def test_weights_that_two_layers_share_stay_apart() -> None:
    model = Holder(16, 16)
    first, second = model.linears
    second.weight = first.weight  # type: ignore[assignment]
    assert join_products(model, [model]) == 0


def test_where_the_trial_disagrees_they_stay_apart() -> None:
    model = Holder(16, 16)
    model.linears[1].register_forward_hook(lambda _linear, _args, said: said + 1)
    expected = [linear(rows(3)) for linear in model.linears]
    assert join_products(model, [model]) == 0
    for found, wanted in zip(model.products(rows(3)), expected, strict=True):
        torch.testing.assert_close(found, wanted)


def test_where_memory_runs_out_the_rest_stay_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = Holder(16, 16), Holder(16, 16)
    model = nn.ModuleList([first, second])

    def scarce(parts: Sequence[Any]) -> JoinedProduct:
        if parts[0] is second.linears[0]:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return joined_product(parts)

    monkeypatch.setattr(products, "joined_product", scarce)
    assert join_products(model, [first, second]) == 1
    assert isinstance(first.products, JoinedProduct) and isinstance(second.products, SeparateProducts)


def test_same_text_compares_the_bits_of_joined_products() -> None:
    runner = fused_runner(load(LLAMA.make().bfloat16()), WrittenOut())
    joined = {module.product for module in runner.model.modules() if isinstance(module, JoinedProduct)}
    compared = {layer for layer, _rows in layers_with_rows(runner, numbers(16))}
    assert len(joined) == 4  # two kinds in each of two layers, of which one each is compared
    assert len(joined & compared) == 2
