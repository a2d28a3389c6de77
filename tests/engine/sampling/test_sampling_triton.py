"""Tokens that the GPU's kernels find and draw: on a card or interpreted."""

import sys
from collections.abc import Sequence

import pytest
import torch
from torch import Tensor

from app.engine.sampling import sampling as sampling_module
from app.engine.sampling.sampling import (
    MOST_LIKELY,
    MOST_TOP_K,
    Draws,
    _fault_of_kernels,
    best_by_kernels,
    best_tokens,
    draw,
    kernel_fault,
    likeliest,
)
from app.values.messages import Sampling
from tests.engine.attention.cases import DEVICE
from tests.tiers import named, numbered, pairwise

pytest.importorskip("triton", reason="triton is not installed")
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="triton is not installed")
SAMPLINGS = [
    Sampling(0.8, seed=3),
    Sampling(100.0, seed=4),
    Sampling(1.0, min_p=0.05, seed=5),
    Sampling(0.7, 20, 0.8, seed=6),
    Sampling(2.0, 12, seed=7),
    Sampling(1.5, top_p=0.4, min_p=0.01, seed=8),
    Sampling(5.0, top_p=0.9, seed=9),
    Sampling(0.5, 3, 0.9, 0.2, seed=10),
]
POSITIONS = (10, 500)


def drawn(logits: Tensor, positions: Sequence[int], sampling: Sampling) -> list[int]:
    found = best_by_kernels(logits.to(DEVICE), Draws(sampling, tuple(positions)))
    return [int(token) for token in found[:, -1].tolist()]


def some_logits(size: int, dtype: torch.dtype) -> Tensor:
    source = torch.Generator().manual_seed(size)
    return torch.randn((len(POSITIONS), size), generator=source).mul(3).to(dtype)


@pairwise(
    dtype=named((torch.float32, torch.float16, torch.bfloat16)),
    sampling=numbered(SAMPLINGS),
    size=named((999, 5001)),
    deep=(),
)
def test_rows_draw_what_each_draws_on_a_cpu(dtype: torch.dtype, sampling: Sampling, size: int) -> None:
    logits = some_logits(size, dtype)
    expected = [draw(row, [0] * at, sampling) for row, at in zip(logits, POSITIONS, strict=True)]
    assert drawn(logits, POSITIONS, sampling) == expected


@pytest.mark.parametrize("tokens", [10])
def test_at_the_border_of_top_p_chances_are_added_in_order(tokens: int) -> None:
    """Of equal chances each border lies where rounding decides."""
    for count in range(1, tokens, 3):
        sampling = Sampling(1.0, top_p=count / tokens)
        assert drawn(torch.zeros(1, tokens), (count,), sampling) == [
            draw(torch.zeros(tokens), [0] * count, sampling)
        ]


def test_the_lowest_of_equal_tokens_come_first() -> None:
    logits = some_logits(300, torch.float32).round()
    found = best_by_kernels(logits.to(DEVICE), None).cpu()
    ordered = logits.sort(dim=-1, descending=True, stable=True)
    assert found[:, :MOST_LIKELY].tolist() == ordered.values[:, :MOST_LIKELY].tolist()
    assert found[:, MOST_LIKELY:-1].tolist() == ordered.indices[:, :MOST_LIKELY].tolist()
    assert (
        found[:, -1].tolist()
        == best_tokens(logits, 1)[:, -1].tolist()
        == likeliest(logits, 1)[0][:, 0].tolist()
    )


@pytest.mark.parametrize(
    "sampling", [Sampling(), Sampling(0.8), Sampling(0.8, 4), Sampling(0.8, 0, 0.9)], ids=repr
)
def test_a_token_that_a_grammar_forbids_is_not_drawn(sampling: Sampling) -> None:
    logits = torch.full((2, 300), -torch.inf)
    logits[0, 299] = 1.0
    assert drawn(logits, (5, 6), sampling)[0] == 299
    assert 0 <= drawn(logits, (5, 6), sampling)[1] < 300


def test_the_kernels_have_the_sizes_that_samplers_expect() -> None:
    from app.engine.sampling import sampling_triton

    assert (sampling_triton.LIKELY.value, sampling_triton.MOST.value) == (MOST_LIKELY, MOST_TOP_K)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a card")
def test_a_gpu_that_is_not_there_has_a_fault() -> None:
    assert kernel_fault(torch.device("cuda"), torch.bfloat16, 1000)


def test_the_kernels_are_timed_in_float32_too() -> None:
    seconds = iter((3e-3, 5e-4, 5e-4))
    fault = _fault_of_kernels(DEVICE, torch.float32, 100, lambda _run: next(seconds))
    assert fault == "it takes 3.0 times as long as torch's"


def test_full_memory_in_the_trial_is_not_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    def trial(_device: torch.device, _dtype: torch.dtype, _vocabulary: int) -> str:
        raise error

    monkeypatch.setattr(sampling_module, "_fault_of_kernels", trial)
    asked = torch.device("cpu"), torch.float16, 12_345
    error: Exception = torch.OutOfMemoryError("CUDA out of memory")
    with pytest.raises(torch.OutOfMemoryError):
        kernel_fault(*asked)
    error = ValueError("it does not compile")
    assert kernel_fault(*asked) == "it does not compile"
