"""Weights that are to be quantised are read one by one, and become what a whole model in memory becomes."""

from pathlib import Path

import pytest
import torch
from torch import nn
from transformers import AutoConfig, LlamaForCausalLM, PreTrainedModel

from app.engine.layers.quantisation import StoredParameter, quantise
from app.engine.layers.recurrent_layers import calls_its_linears
from app.engine.loading.kept_layers import shape_in
from app.engine.loading.weights import read_weights
from app.errors import ModelBroken
from app.values.messages import ModelFolder
from tests.engine.architectures import BRANCHING, IN_DEPTH, OWN_ATTENTION, Architecture
from tests.engine.recurrent_architectures import RECURRENT
from tests.engine.tiny import tiny_config
from tests.quantised_checkpoints import write_quantised
from tests.tiers import named, some

CPU = torch.device("cpu")
FAMILIES = named((*BRANCHING, *OWN_ATTENTION, *RECURRENT))


def read(folder: Path, quantises: bool = True) -> PreTrainedModel:
    config = AutoConfig.from_pretrained(folder)
    model = read_weights(ModelFolder(folder, "tiny"), config, torch.float32, {}, quantises=quantises)
    return model.requires_grad_(False).eval()


def matrices(model: PreTrainedModel) -> list[nn.Parameter]:
    embedding = model.get_input_embeddings()
    modules = (one for one in model.modules() if type(one) is nn.Linear or one is embedding)
    return [one.weight for one in modules if isinstance(one.weight, nn.Parameter)]


def assert_same_quantised(later: PreTrainedModel, whole: PreTrainedModel) -> None:
    if not calls_its_linears(whole):  # then it is not quantised
        return
    assert quantise(later, "int8", CPU) == quantise(whole, "int8", CPU)
    found, expected = later.state_dict(), whole.state_dict()
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], expected[name]) for name in expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("architecture", some(FAMILIES, *IN_DEPTH, "qwen3.5", "stablelm"))
def test_weights_that_are_read_later_become_the_same_integers(
    architecture: Architecture, dtype: torch.dtype, tmp_path: Path
) -> None:
    architecture.make().to(dtype).save_pretrained(tmp_path)
    later = read(tmp_path)
    stored = matrices(later)
    if architecture.name in IN_DEPTH:  # transformers changes weights of some other models while it reads them
        assert stored and all(isinstance(one, StoredParameter) for one in stored)
        assert sum(one.untyped_storage().nbytes() for one in stored) <= 4 * len(stored)
    assert_same_quantised(later, read(tmp_path, quantises=False))


@pytest.mark.parametrize("kind", ["awq", "fp8", "fp8, uneven blocks", "pack-quantized"])
def test_dequantised_weights_are_read_later_too(kind: str, tmp_path: Path) -> None:
    LlamaForCausalLM(tiny_config(hidden=64, intermediate=96)).save_pretrained(tmp_path / "plain")
    write_quantised(tmp_path / "plain", kind, tmp_path / "quantised", tmp_path / "twin")
    later = read(tmp_path / "quantised")
    assert all(isinstance(one, StoredParameter) for one in matrices(later))
    assert_same_quantised(later, read(tmp_path / "twin", quantises=False))


def test_a_weight_of_another_size_is_told(tmp_path: Path) -> None:
    LlamaForCausalLM(tiny_config(hidden=64, intermediate=96)).save_pretrained(tmp_path)
    config = AutoConfig.from_pretrained(tmp_path)
    config.intermediate_size = 80
    config.save_pretrained(tmp_path)
    with pytest.raises(ModelBroken, match=r"do not fit its config\.json"):
        read(tmp_path)


def test_names_in_files_may_have_any_prefix() -> None:
    kept = {"layers.0.mlp.up_proj.weight": (3, 2), "lm_head.weight": (5, 2)}
    assert shape_in(kept, "language_model.model.layers.0.mlp.up_proj.weight") == (3, 2)
    assert shape_in(kept, "language_model.lm_head.weight") == (5, 2)
    assert shape_in(kept, "model.layers.1.mlp.up_proj.weight") == shape_in(kept, "weight") == ()
