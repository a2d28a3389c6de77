"""A device is tried by a small model before a large one is put there."""

from collections.abc import Sequence

import pytest
import torch
from torch import Tensor
from transformers import PreTrainedModel

from app.engine.attention.backend_choice import DeviceCapabilities, HeadShape, choose_attention, sdpa
from app.engine.loading.device_trial import device_fault, run_small
from app.engine.sampling.sampling import make_sampler
from app.values.messages import Sampling

MPS = torch.device("mps")


def test_the_cpu_agrees_with_itself() -> None:
    assert device_fault(torch.device("cpu")) == ""


@pytest.mark.skipif(torch.backends.mps.is_available(), reason="there is an Apple GPU")
def test_a_device_that_is_not_there_says_why() -> None:
    assert device_fault(MPS)


def test_a_device_that_says_something_else_is_refused() -> None:
    """There is none here: the CPU takes its place, and gives different results the second time."""
    runs = [0]

    def run(model: PreTrainedModel) -> list[Tensor]:
        runs[0] += 1
        first, *rest = run_small(model)
        return [first.flip(-1) if runs[0] == 2 else first, *rest]

    words = "a small model gives different results there than on the CPU"
    assert device_fault(torch.device("cpu"), run) == words


def test_an_apple_gpu_attends_by_torch_without_float64() -> None:
    heads = HeadShape(4, 2, 16, torch.float32)
    found = choose_attention("auto", DeviceCapabilities(MPS), heads)
    assert (found.name, found.note, found.same_text_limit) == ("sdpa", "", 0)
    assert found.batch_invariant is sdpa.attend


@pytest.mark.parametrize("sampling", [Sampling(), Sampling(temperature=0.8, top_p=0.9, seed=3)])
def test_on_an_apple_gpu_tokens_are_drawn_on_the_host(sampling: Sampling) -> None:
    logits = torch.randn(3, 50, generator=torch.Generator().manual_seed(1))
    found, expected = (
        each(logits, 2, (4, 5, 6)) for each in (make_sampler(sampling, "mps:0"), make_sampler(sampling))
    )
    history: Sequence[int] = (1, 2, 3, 4)
    assert [found.choose(row, history) for row in range(3)] == [
        expected.choose(row, history) for row in range(3)
    ]
