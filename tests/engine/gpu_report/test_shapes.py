"""The shapes that a card is measured with are those of the models they are named for."""

import pytest
import torch

from app.engine.gpu_report.correctness import allowed
from app.engine.gpu_report.plan import LayerCase, Plan
from app.engine.gpu_report.running import GRACE
from app.engine.gpu_report.sections import Section, sections
from app.engine.gpu_report.shapes import HeadShape, ModelShape, random_model, shaped
from tests.engine.attention.test_conformance import ROUNDING
from tests.engine.gpu_report.tiny_plan import SHAPE

SIZES = {
    "llama-2-7b": 6_738_415_616,
    "llama-3.1-8b": 8_030_261_248,
    "qwen3-0.6b": 596_049_920,
    "qwen3-4b": 4_022_468_096,
}


def test_named_shapes_have_the_sizes_of_their_models() -> None:
    meta = torch.device("meta")
    sizes = {
        shape.name: random_model(shape, meta, torch.bfloat16).num_parameters() for shape in Plan().models
    }
    assert sizes == SIZES


def test_a_step_reads_all_weights_but_the_table_and_the_cache() -> None:
    model = shaped(random_model(SHAPE, torch.device("cpu"), torch.float16), SHAPE.name)
    table, cache = 512 * 64 * 2, 2 * 2 * (2 * 16 * 10) * 2
    assert model.heads == HeadShape("tiny", 4, 2, 16)
    assert model.read_bytes(10) == model.bytes - table + cache


def test_the_attention_that_is_timed_is_the_models() -> None:
    by_name = {heads.name: (heads.count, heads.shared, heads.size) for heads in Plan().heads}
    assert by_name == {"llama-2-7b": (32, 32, 128), "llama-3.1-8b": (32, 8, 128), "qwen3-0.6b": (16, 8, 128)}


def test_the_whole_plan_fits_into_eight_minutes() -> None:
    plan = Plan()
    assert plan.seconds + GRACE < 480
    names = [section.name for section in sections(plan)]
    assert names[:3] == ["correctness", "llama-2-7b", "attention"]


@pytest.mark.parametrize("dtype", ROUNDING)
def test_errors_are_allowed_as_the_tests_of_backends_allow_them(dtype: torch.dtype) -> None:
    assert allowed(LayerCase(HeadShape("tests'", 4, 2, 16), 5, 4, dtype)) == ROUNDING[dtype]


def test_impossible_shapes_are_refused() -> None:
    with pytest.raises(ValueError, match="query heads must divide into key heads, got 4 and 3"):
        HeadShape("odd", 4, 3, 16)
    with pytest.raises(ValueError, match="needs a model_type"):
        ModelShape("nothing", {})
    with pytest.raises(ValueError, match="a section needs time, got 0"):
        Section("none", 0, lambda _plan, _gauge: iter(()))
    with pytest.raises(ValueError, match="a plan needs models"):
        Plan(models=())
