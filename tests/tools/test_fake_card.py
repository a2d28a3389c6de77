"""The kernels of recorded steps, counted on torch's CUDA build without a GPU: the numbers of docs/benchmarks.md."""

import pytest
import torch
from transformers import AutoConfig

from tools.fake_card import SAMPLINGS, recorded_step
from tools.gpu_report.plan import SHAPES

KERNELS = {"llama-2-7b": 337, "llama-3.1-8b": 337, "qwen3-0.6b": 297}


@pytest.mark.thorough
@pytest.mark.skipif(torch.version.cuda is None, reason="this torch has no CUDA")
@pytest.mark.parametrize("shape", KERNELS)
@pytest.mark.parametrize("name", SAMPLINGS)
def test_a_recorded_step_has_few_kernels_and_reads_nothing(shape: str, name: str) -> None:
    settings = dict(SHAPES[shape])
    config = AutoConfig.for_model(settings.pop("model_type"), **settings)
    step = recorded_step(config, 64, SAMPLINGS[name])
    assert (step.launches.total(), step.reads, step.note) == (KERNELS[shape], [], "")
