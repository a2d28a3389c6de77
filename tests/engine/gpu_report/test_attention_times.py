"""What attention is timed against answers the same question: rivals are right before they are slow."""

from collections.abc import Callable

import pytest
import torch
from torch.nn.attention.flex_attention import flex_attention

from app.engine.attention import sdpa
from app.engine.gpu_report.attention_times import Layer, attention_times, dense_mask
from app.engine.gpu_report.findings import matching
from app.engine.gpu_report.flex_times import flex_run
from app.engine.gpu_report.gauge import CpuGauge
from app.engine.gpu_report.shapes import HeadShape
from app.engine.gpu_report.trees import DEEPEST, random_tree
from tests.engine.gpu_report.tiny_plan import HEADS, PLAN

MANY = HeadShape("a key head for each", 4, 4, 16)


def by_flex(layer: Layer) -> torch.Tensor:
    out: torch.Tensor = flex_run(layer, flex_attention)()
    return out


def by_dense_mask(layer: Layer) -> torch.Tensor:
    out: torch.Tensor = layer.run(dense_mask)()
    return out


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile:UserWarning")
@pytest.mark.parametrize("rival", [by_flex, by_dense_mask])
@pytest.mark.parametrize("heads", [HEADS, MANY], ids=lambda heads: heads.name)
def test_a_rival_attends_to_the_same_keys(rival: Callable[[Layer], torch.Tensor], heads: HeadShape) -> None:
    layer = Layer(heads, 40, 30, torch.float32, torch.device("cpu"))
    ours = layer.run(sdpa.attend)()  # [1, T, H, D]; rivals: [1, H, T, D]
    with torch.inference_mode():
        assert torch.allclose(rival(layer).transpose(1, 2), ours, atol=1e-5)


def test_the_share_is_of_keys_and_values_of_prefix_and_block() -> None:
    copied, *found = attention_times(PLAN, CpuGauge())
    numbers = matching(found, "attention", prefix=40, rows=2)[0].numbers
    assert numbers["bytes"] == 2 * 2 * 16 * 42 * 2
    rate = 1000 * numbers["bytes"] / numbers["ms"]["median"]
    assert numbers["share_of_copy"] == pytest.approx(rate / copied.numbers["bytes_per_second"])


def test_trees_are_as_deep_as_lookaheads() -> None:
    block = random_tree(128, 10)
    assert len(block) == 128
    assert 4 < max(block.positions) - 10 <= DEEPEST
    assert block.visible.sum(axis=1).tolist() == [position - 9 for position in block.positions]
