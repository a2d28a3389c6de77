"""Our products are for half precision on cards from Ampere on, and only where their trial goes well."""

import pytest
import torch
from torch import Tensor, nn

from app.engine.attention.choosing import Machine, machine_of
from app.engine.products.choosing import can_have, fixed_twin, trial
from tests.engine.attention.cases import DEVICE
from tests.engine.products.twins import SMALL
from tests.engine.replies import load
from tests.engine.zoo import BRANCHING, LLAMA

CUDA = torch.device("cuda")


@pytest.mark.parametrize(
    ("machine", "dtype", "expected"),
    [
        (Machine(CUDA, (9, 0), has_triton=True), torch.bfloat16, True),
        (Machine(CUDA, (8, 0), has_triton=True), torch.float16, True),
        (Machine(CUDA, (7, 5), has_triton=True), torch.float16, False),
        (Machine(CUDA, (9, 0), has_triton=False), torch.bfloat16, False),
        (Machine(CUDA, (9, 0), has_triton=True), torch.float32, False),
        (Machine(torch.device("cpu"), has_triton=True), torch.bfloat16, False),
    ],
)
def test_who_can_have_them(machine: Machine, dtype: torch.dtype, expected: bool) -> None:
    assert can_have(LLAMA.make().to(dtype), machine) == expected


def test_a_model_without_linears_needs_none() -> None:
    model = LLAMA.make().bfloat16()
    for name in ("q_proj", "k_proj", "v_proj", "o_proj"):
        for layer in model.model.layers:
            setattr(layer.self_attn, name, nn.Identity())
    for layer in model.model.layers:
        layer.mlp = nn.Identity()
    model.lm_head = nn.Identity()
    assert not can_have(model, Machine(CUDA, (9, 0), has_triton=True))


def test_experts_keep_what_they_have() -> None:
    model = next(each for each in BRANCHING if each.name == "mixtral").make().bfloat16()
    assert not can_have(model, Machine(CUDA, (9, 0), has_triton=True))


def test_a_loaded_model_has_them_where_it_can() -> None:
    model = LLAMA.make().to(DEVICE, torch.bfloat16)
    has_card = can_have(model, machine_of(DEVICE))
    assert (fixed_twin(model, machine_of(DEVICE)) is not None) == has_card
    runner = load(model).runner
    assert runner.products == (("torch", "ours") if has_card else ("torch",))  # type: ignore[attr-defined]


@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no bias"])
@pytest.mark.parametrize("count", [3, 128])
def test_a_trial_passes_right_products_and_catches_wrong_ones(bias: bool, count: int) -> None:
    pytest.importorskip("triton", reason="triton is not installed")
    from app.engine.products.fixed import FixedLinear, on_device

    linear = nn.Linear(48, 600, bias, DEVICE, torch.bfloat16).requires_grad_(False)
    product = on_device(SMALL, DEVICE)
    trial(FixedLinear(linear, product), count)

    def wrong(states: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        said = product(states, weight, bias)
        said[-1, -1] += 9
        return said

    with pytest.raises(ArithmeticError, match=rf"wrong values of \(600, 48\) for {count} rows"):
        trial(FixedLinear(linear, wrong), count)


def test_no_number_is_wrong_too() -> None:
    linear = nn.Linear(48, 32, False, DEVICE, torch.bfloat16).requires_grad_(False)
    linear.weight[5] = float("nan")
    with pytest.raises(ArithmeticError):
        trial(linear, 3)
