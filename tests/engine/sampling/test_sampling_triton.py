"""Tokens that the GPU's kernels draw: on a card or interpreted, and compiled for cards that are not there."""

import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

from app.engine.sampling.sampling import draw, drawing_fault, noise_key
from app.values.messages import Sampling
from tests.engine.attention.cases import DEVICE
from tests.engine.offline_compiler import HOPPER, LAPTOP, SHARED_MEMORY, TURING, compiled
from tests.tiers import named, numbered, pairwise, some

pytest.importorskip("triton", reason="triton is not installed")
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="triton is not installed")
SAMPLINGS = [Sampling(0.8, seed=3), Sampling(100.0, seed=4), Sampling(1.0, min_p=0.05, seed=5)]
CARDS = (TURING, LAPTOP, HOPPER, (8, 0), (8, 9), (10, 0), (12, 0))


def drawn(logits: torch.Tensor, positions: Sequence[int], sampling: Sampling) -> list[int]:
    from app.engine.sampling.sampling_triton import draw_on_gpu

    keys = torch.tensor([noise_key(sampling.seed, position) for position in positions], device=DEVICE)
    found: list[int] = draw_on_gpu(logits.to(DEVICE), keys, sampling.temperature, sampling.min_p).tolist()
    return found


def some_logits(size: int, dtype: torch.dtype, rows: int = 4) -> torch.Tensor:
    return torch.randn((rows, size), generator=torch.Generator().manual_seed(size)).mul(3).to(dtype)


@pairwise(
    dtype=named((torch.float32, torch.float16, torch.bfloat16)),
    sampling=numbered(SAMPLINGS),
    size=named((999, 9001)),
)
def test_rows_draw_what_each_draws_on_a_cpu(dtype: torch.dtype, sampling: Sampling, size: int) -> None:
    logits, positions = some_logits(size, dtype), (10, 11, 11, 500)
    expected = [draw(row, [0] * at, sampling) for row, at in zip(logits, positions, strict=True)]
    assert drawn(logits, positions, sampling) == expected
    assert drawn(logits[2:3], positions[2:3], sampling) == expected[2:3]


def test_a_token_that_a_grammar_forbids_is_not_drawn() -> None:
    logits = torch.full((2, 300), -torch.inf)
    logits[0, 299] = 1.0
    assert drawn(logits, (5, 6), Sampling(0.8))[0] == 299
    assert 0 <= drawn(logits, (5, 6), Sampling(0.8))[1] < 300


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a card")
def test_a_gpu_that_is_not_there_has_a_fault() -> None:
    assert drawing_fault(torch.device("cuda"))


@pytest.mark.parametrize("card", some(named(CARDS), str(HOPPER)))
def test_it_fits_a_card(card: tuple[int, int], tmp_path: Path) -> None:
    found = compiled("tests.engine.sampling.compiling", card, tmp_path, "default")
    assert {each.kernel for each in found} == {"draw_kernel"}
    assert all(each.spilled == 0 and each.shared <= SHARED_MEMORY[card] for each in found)
