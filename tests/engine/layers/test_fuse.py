"""Fused layers are for cards from Ampere on, and only where their trials go well; else nothing changes."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from app.engine.attention.sdpa import attend
from app.engine.attention.selector import DeviceCapabilities, capabilities_of
from app.engine.cpu_kernels.loading import cpu_kernels
from app.engine.layers.fuse import can_have, fuse, fuse_by
from app.engine.layers.kernel_signature import NormShape
from tests.engine.architectures import LLAMA
from tests.engine.layers.fusing import named
from tests.engine.replies import load
from tools.layer_launches import WrittenOut

CUDA, CPU = torch.device("cuda"), torch.device("cpu")


@pytest.mark.parametrize(
    ("machine", "expected"),
    [
        (DeviceCapabilities(CUDA, (9, 0), has_triton=True), True),
        (DeviceCapabilities(CUDA, (8, 0), has_triton=True), True),
        (DeviceCapabilities(CUDA, (7, 5), has_triton=True), False),
        (DeviceCapabilities(CUDA, (9, 0), has_triton=False), False),
        (DeviceCapabilities(CPU, has_triton=True), False),
    ],
)
def test_who_can_have_them(machine: DeviceCapabilities, expected: bool) -> None:
    assert can_have(machine) == expected


def model_of(name: str = "llama") -> Any:
    runner: Any = load(named(name).make()).runner
    return runner.model


def test_a_cpu_without_a_compiler_keeps_the_model_it_has() -> None:
    model = model_of()
    found = fuse(model, capabilities_of(CPU), attend)
    assert found.model is model and found.note == ""


def test_a_cpu_keeps_a_model_in_half_precision() -> None:
    model = model_of().bfloat16()
    assert fuse(model, replace(capabilities_of(CPU), cpu_kernels=cpu_kernels()), attend).model is model


def test_a_loaded_model_has_them_where_it_can() -> None:
    machine = capabilities_of(torch.device("cuda" if torch.cuda.is_available() else "cpu"))
    info = load(LLAMA.make().to(machine.device)).info
    assert info.note("fused").startswith("One kernel of our own each" if can_have(machine) else "")
    assert bool(info.note("fused")) == can_have(machine)


def test_it_is_told_what_runs_as_one_kernel() -> None:
    assert fuse_by(WrittenOut(), model_of(), attend).note == (
        "One kernel of our own each: 5 norms, 2 gated activations, 2 rotary embeddings, 2 residual sums. "
        "Joined products: 4."
    )
    assert fuse_by(WrittenOut(), model_of("cohere"), attend).note == (
        "One kernel of our own each: 2 gated activations. Joined products: 2."
    )


def test_where_nothing_can_be_replaced_the_model_is_what_it_was() -> None:
    model = model_of("gpt2")
    found = fuse_by(WrittenOut(), model, attend)
    assert found.model is model
    assert found.note == "Layers keep torch's kernels: none has the parts that ours replace."


class WrongForMany(WrittenOut):
    """Right in every trial of a part, and for few rows of the whole."""

    def rms_norm(self, states: Tensor, weight: Tensor, shape: NormShape) -> Tensor:
        said = super().rms_norm(states, weight, shape)
        return said if states.shape[-2] < 33 else said + 1

    def add_rms_norm(
        self, states: Tensor, others: Tensor, weight: Tensor, shape: NormShape
    ) -> tuple[Tensor, Tensor]:
        total, said = super().add_rms_norm(states, others, weight, shape)
        return total, said if states.shape[-2] < 33 else said - 3


def test_the_whole_model_is_tried_with_many_rows() -> None:
    with pytest.raises(ArithmeticError, match="together they say something else for 33 rows"):
        fuse_by(WrongForMany(), model_of(), attend)


@pytest.mark.parametrize(
    ("machine", "words"),
    [
        (DeviceCapabilities(CUDA, (9, 0)), "Triton is not installed for this device"),
        (
            DeviceCapabilities(CUDA, (7, 5), has_triton=True),
            "ours need a card of the Ampere generation or newer",
        ),
        (DeviceCapabilities(CUDA, is_rocm=True), "ours were never tried on AMD's cards"),
    ],
)
def test_a_card_that_cannot_have_them_is_told_why(machine: DeviceCapabilities, words: str) -> None:
    model = model_of()
    found = fuse(model, machine, attend)
    assert found.model is model
    assert found.note == f"Layers keep torch's kernels: {words}."


class Broken(WrittenOut):
    """Right in every trial of a part, wrong in the end."""

    def rms_norm(self, states: Tensor, weight: Tensor, shape: NormShape) -> Tensor:
        said = super().rms_norm(states, weight, shape)
        # Trials of a norm have more rows than those of the whole.
        return said if states.shape[0] > 1 else said + 1

    def add_rms_norm(
        self, states: Tensor, others: Tensor, weight: Tensor, shape: NormShape
    ) -> tuple[Tensor, Tensor]:
        total, said = super().add_rms_norm(states, others, weight, shape)
        return total, said - 3


def test_the_whole_model_is_tried_in_the_end() -> None:
    with pytest.raises(ArithmeticError, match="together they say something else"):
        fuse_by(Broken(), model_of(), attend)


def test_a_card_that_fails_costs_nothing_and_is_told() -> None:
    """There is none here: the machine says otherwise, so that whatever is asked of it fails."""
    if torch.cuda.is_available():
        pytest.skip("there is a card")
    model = model_of()
    found = fuse(model, DeviceCapabilities(CUDA, (9, 0), has_triton=True), attend)
    assert found.model is model
    assert found.note.startswith("Layers keep torch's kernels")
