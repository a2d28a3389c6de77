"""Whatever a kernel raises or miscounts at load, the model runs as torch has it, and a note says why."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor
from transformers import PreTrainedModel

from app.engine.attention import BlockView, LayerCache, Scoring, sdpa
from app.engine.attention.backend_choice import (
    SDPA,
    TRIALS,
    Attention,
    DeviceCapabilities,
    HeadShape,
    try_attention,
)
from app.engine.decoders.plain import plain
from app.engine.layers.model_trial import reason_against_trees
from app.engine.loading.kernel_choice import KernelChoice, run_in_blocks
from app.errors import AttentionUnavailable
from app.values.messages import AttentionChoice
from tests.engine.architectures import LLAMA
from tests.engine.replies import load, numbers, write

CPU = torch.device("cpu")
HEADS = HeadShape(4, 2, 16, torch.float32, windows=(0, 1024))
Fault = Callable[[Tensor, BlockView, Scoring, Tensor], Tensor]


class CompileError(Exception):
    """As Triton's, which are no RuntimeError."""


def faulty(fault: Fault) -> Attention:
    """A backend that attends as torch does, and then this happens to what it says."""

    def attend(query: Tensor, cache: LayerCache, view: BlockView, scoring: Scoring) -> Tensor:
        return fault(query, view, scoring, sdpa.attend(query, cache, view, scoring))

    return Attention("triton", attend, attend)


def fails_to_compile(query: Tensor, _view: BlockView, _scoring: Scoring, out: Tensor) -> Tensor:
    if query.shape[2] == 128:
        raise CompileError("out of resource: shared memory")
    return out


def is_wrong_for_many_rows(query: Tensor, _view: BlockView, _scoring: Scoring, out: Tensor) -> Tensor:
    return out if query.shape[2] < 33 else torch.zeros_like(out)


def in_blocks(attention: Attention, choice: AttentionChoice = "auto") -> KernelChoice:
    model = llama()
    return run_in_blocks(model, attention, DeviceCapabilities(CPU), 1024, choice)


def llama() -> PreTrainedModel:
    """A model whose attention is ours."""
    load(LLAMA.make())  # registers it
    model = LLAMA.make()
    assert reason_against_trees(model, SDPA.attend) == ""
    return model


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (fails_to_compile, "out of resource: shared memory"),
        (is_wrong_for_many_rows, "steps of 33 rows give different logits"),
    ],
)
def test_a_kernel_that_fails_at_load_leaves_torchs_attention_and_a_note(fault: Fault, words: str) -> None:
    found = in_blocks(faulty(fault))
    assert (found.attention.name, found.attention.attend) == ("sdpa", SDPA.attend)
    assert found.attention.note == f"triton: its trial with this model failed ({words})"
    assert words in found.notes["fused"]
    prompt = numbers(20)
    expected = write(load(LLAMA.make()).runner, prompt, plain).tokens
    assert write(found.runner, prompt, plain).tokens == expected
    with pytest.raises(AttentionUnavailable, match="its trial with this model failed"):
        in_blocks(faulty(fault), "triton")


def test_a_kernel_that_agrees_is_kept() -> None:
    attention = faulty(lambda _query, _view, _scoring, out: out)
    assert in_blocks(attention).attention is attention


def test_memory_that_is_too_small_for_the_widest_trial_is_no_fault_of_the_kernel() -> None:
    def exhausts(query: Tensor, _view: BlockView, _scoring: Scoring, out: Tensor) -> Tensor:
        if query.shape[2] == 128:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return out

    attention = faulty(exhausts)
    assert in_blocks(attention).attention is attention


def test_memory_that_runs_out_in_a_trial_leaves_torchs_attention_and_a_note() -> None:
    def exhausts(_query: Tensor, _view: BlockView, _scoring: Scoring, _out: Tensor) -> Tensor:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 3.00 GiB")

    found = in_blocks(faulty(exhausts))
    assert found.attention.note == "triton: its trial with this model failed (memory ran out)"
    assert write(found.runner, numbers(20), plain).tokens


def test_a_lost_device_is_not_taken_for_a_kernel_that_fails() -> None:
    def breaks(_query: Tensor, _view: BlockView, _scoring: Scoring, _out: Tensor) -> Tensor:
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    with pytest.raises(RuntimeError, match="illegal memory access"):
        in_blocks(faulty(breaks))


def is_wrong_behind_long_prefixes(_query: Tensor, view: BlockView, _scoring: Scoring, out: Tensor) -> Tensor:
    return out if view.prefix_length < 4096 else out.flip(3)


def is_wrong_in_windows(_query: Tensor, _view: BlockView, scoring: Scoring, out: Tensor) -> Tensor:
    return out.flip(3) if scoring.window else out


@pytest.mark.parametrize(
    "fault", [is_wrong_for_many_rows, is_wrong_behind_long_prefixes, is_wrong_in_windows, fails_to_compile]
)
def test_a_backend_is_tried_with_few_and_many_rows_behind_long_prefixes(fault: Fault) -> None:
    with pytest.raises((ArithmeticError, CompileError)):
        try_attention(faulty(fault).attend, CPU, HEADS, TRIALS)


@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16, torch.float16), ids=str)
def test_a_backend_that_rounds_passes(dtype: torch.dtype) -> None:
    try_attention(SDPA.attend, CPU, replace(HEADS, dtype=dtype, softcap=30.0), TRIALS)
