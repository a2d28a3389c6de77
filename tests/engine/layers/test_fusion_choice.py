"""Fused layers are for cards from Ampere on, and only where their trials go well; else nothing changes."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from app.engine.attention.backend_choice import DeviceCapabilities, capabilities_of
from app.engine.attention.sdpa import attend
from app.engine.cpu_kernels import cpu_kernels
from app.engine.layers import module_replacement
from app.engine.layers.fused_modules import NormShape
from app.engine.layers.fusion_choice import TIMED_ROWS, fuse, fuse_by, refusal, slowness_of
from app.engine.layers.model_trial import block_logits, trial_blocks
from app.engine.machine.kernel_timing import Run
from app.engine.runner.runner import run_block
from tests.engine.architectures import LLAMA
from tests.engine.layers.fusing import named
from tests.engine.replies import load
from tests.support.written_out import WrittenOut

CUDA, CPU = torch.device("cuda"), torch.device("cpu")


@pytest.mark.parametrize("generation", [(9, 0), (8, 0)])
def test_cards_from_ampere_on_can_have_them(generation: tuple[int, int]) -> None:
    assert not refusal(DeviceCapabilities(CUDA, generation, has_triton=True))


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
    can_have = machine.device.type == "cuda" and not refusal(machine)
    assert info.note("fused").startswith("Each of these runs as one kernel of our own" if can_have else "")
    assert bool(info.note("fused")) == can_have


def test_it_is_told_what_runs_as_one_kernel() -> None:
    assert fuse_by(WrittenOut(), model_of(), attend).note == (
        "Each of these runs as one kernel of our own: 5 norms, 2 gated activations, 2 rotary embeddings, "
        "2 residual sums. Joined products: 4."
    )
    assert fuse_by(WrittenOut(), model_of("cohere"), attend).note == (
        "Each of these runs as one kernel of our own: 2 gated activations. Joined products: 2."
    )


def test_where_nothing_can_be_replaced_the_model_is_what_it_was() -> None:
    model = model_of("gpt2")
    found = fuse_by(WrittenOut(), model, attend)
    assert found.model is model
    assert found.note == "Layers keep torch's kernels: no layer has parts that ours can replace."


@pytest.mark.parametrize(
    ("machine", "words"),
    [
        (DeviceCapabilities(CUDA, (9, 0)), "Triton is not installed for this device"),
        (
            DeviceCapabilities(CUDA, (7, 5), has_triton=True),
            "ours need a GPU of the Ampere generation or newer",
        ),
        (DeviceCapabilities(CUDA, is_rocm=True), "ours were never tried on AMD's GPUs"),
        (DeviceCapabilities(CPU, has_triton=True), ""),
    ],
)
def test_a_card_that_cannot_have_them_is_told_why(machine: DeviceCapabilities, words: str) -> None:
    model = model_of()
    found = fuse(model, machine, attend)
    assert found.model is model
    assert found.note == (f"Layers keep torch's kernels: {words}." if words else "")


class Counting(WrittenOut):
    """Counts norms alone, and sums with their norms."""

    def __init__(self) -> None:
        super().__init__()
        self.norms = self.sums = 0

    def rms_norm(self, states: Tensor, weight: Tensor, shape: NormShape) -> Tensor:
        self.norms += 1
        return super().rms_norm(states, weight, shape)

    def add_rms_norm(
        self, states: Tensor, others: Tensor, weight: Tensor, shape: NormShape
    ) -> tuple[Tensor, Tensor]:
        self.sums += 1
        return super().add_rms_norm(states, others, weight, shape)


def test_each_residual_sum_is_one_kernel_with_the_norm_after_it() -> None:
    kernels, model = Counting(), model_of()
    fused = fuse_by(kernels, model, attend).model
    (block,) = trial_blocks(model, (3,))
    kernels.norms = kernels.sums = 0
    logits = block_logits(fused, attend)(block)
    passes = 2  # the prefix, and the block
    assert (kernels.norms, kernels.sums) == (passes, passes * 2 * model.config.num_hidden_layers)
    torch.testing.assert_close(logits, block_logits(model, attend)(block))


def test_all_parts_are_tried_with_the_calls_of_one_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    passes: list[Any] = []
    monkeypatch.setattr(
        module_replacement, "run_block", lambda *given: passes.append(given) or run_block(*given)
    )
    assert fuse_by(WrittenOut(), model_of(), attend).is_fused
    assert len(passes) == 1


class WrongInTheWhole(WrittenOut):
    """Right in every trial of a part, and wrong for such states in the trial of the whole model."""

    def __init__(self, is_wrong: Callable[[Tensor], bool]) -> None:
        super().__init__()
        self._is_wrong = is_wrong

    def rms_norm(self, states: Tensor, weight: Tensor, shape: NormShape) -> Tensor:
        normed = super().rms_norm(states, weight, shape)
        return normed + 1 if self._is_wrong(states) else normed

    def add_rms_norm(
        self, states: Tensor, others: Tensor, weight: Tensor, shape: NormShape
    ) -> tuple[Tensor, Tensor]:
        total, normed = super().add_rms_norm(states, others, weight, shape)
        return total, normed - 3 if self._is_wrong(states) else normed


@pytest.mark.parametrize(
    ("is_wrong", "rows"),
    [(lambda states: states.shape[-2] >= 33, 33), (lambda states: states.shape[0] == 1, 4)],
    ids=["for many rows", "always"],  # trials of a norm alone have several rows in the first dimension
)
def test_the_whole_model_is_tried_in_the_end_with_few_and_many_rows(
    is_wrong: Callable[[Tensor], bool], rows: int
) -> None:
    with pytest.raises(ArithmeticError, match=f"steps of {rows} rows give different logits"):
        fuse_by(WrongInTheWhole(is_wrong), model_of(), attend)


def test_a_card_that_fails_costs_nothing_and_is_told() -> None:
    """There is none here: the machine says otherwise, so that whatever is asked of it fails."""
    if torch.cuda.is_available():
        pytest.skip("there is a card")
    model = model_of()
    found = fuse(model, DeviceCapabilities(CUDA, (9, 0), has_triton=True), attend)
    assert found.model is model
    assert found.note.startswith("Layers keep torch's kernels")


def test_fused_layers_are_timed_in_steps_of_the_whole_model() -> None:
    model, timed = model_of(), []
    fused = fuse_by(WrittenOut(), model, attend).model

    def timer(run: Run) -> float:
        logits: Any = run()
        timed.append(len(logits))
        return {33: (3e-3, 1e-3)}.get(len(logits), (1e-3, 1e-3))[len(timed) % 2 == 0]

    assert slowness_of(fused, model, attend, timer) == (
        "a step of 33 rows with ours takes 3.0 times as long as with torch's"
    )
    assert timed == [rows for rows in TIMED_ROWS for _ in range(2)]
