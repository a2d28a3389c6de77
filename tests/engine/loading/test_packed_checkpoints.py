"""Checkpoints that other programs quantised are read without loss, packed on a CPU and dequantised elsewhere."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, GptOssConfig, GptOssForCausalLM, LlamaForCausalLM, PreTrainedModel

from app.engine.cpu_kernels import packed_kernels
from app.engine.decoders.lookahead_decoder import make_lookahead
from app.engine.layers.packed_layers import Pack, PackedExperts, PackedLinear, dense, packed_weights
from app.engine.layers.packed_weight import CpuPacker
from app.engine.loading.loading import load
from app.engine.loading.weights import read_weights
from app.engine.text.prompt import encode
from app.errors import ModelBroken
from app.values.messages import Decoding, ModelChoice, ModelFolder
from app.values.quantisation_sizes import QuantisationChoice
from tests.engine.replies import GREEDY, says_plainly, write
from tests.engine.tiny import tiny_config, with_tokenizer
from tests.quantised_checkpoints import CONFIGS, write_quantised

NOT_PACKED = [kind for kind in CONFIGS if "float" in kind or "fp8" in kind or kind == "gptq by activations"]
needs_kernels = pytest.mark.skipif(packed_kernels() is None, reason="there is no C compiler here")


def read(path: Path, pack: Pack | None = None) -> PreTrainedModel:
    config = AutoConfig.from_pretrained(path)
    return read_weights(ModelFolder(path, "tiny"), config, torch.float32, {}, pack=pack).eval()


@pytest.fixture
def plain(kind: str, tmp_path: Path) -> Path:
    torch.manual_seed(0)
    config = tiny_config(hidden=64, intermediate=96)
    model: PreTrainedModel = LlamaForCausalLM(config)
    if kind == "mxfp4":
        config.intermediate_size = 64
        experts = {"num_local_experts": 4, "num_experts_per_tok": 2, "head_dim": 16, "sliding_window": 32}
        names = ("vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads")
        sizes = {name: getattr(config, name) for name in names}
        model = GptOssForCausalLM(GptOssConfig(**sizes, **experts, num_key_value_heads=2))
    model.save_pretrained(tmp_path / "plain")
    return with_tokenizer(tmp_path / "plain").path


@pytest.mark.parametrize("kind", CONFIGS)
def test_each_form_is_dequantised_without_loss(kind: str, plain: Path, tmp_path: Path) -> None:
    write_quantised(plain, kind, tmp_path / "quantised", tmp_path / "twin")
    found, expected = (read(tmp_path / name).state_dict() for name in ("quantised", "twin"))
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], expected[name]) for name in expected)


@needs_kernels
@pytest.mark.parametrize("kind", CONFIGS)
def test_numbers_that_stay_packed_are_those_of_the_file(kind: str, plain: Path, tmp_path: Path) -> None:
    write_quantised(plain, kind, tmp_path / "quantised", tmp_path / "twin")
    kept, twin = read(tmp_path / "quantised", CpuPacker()), read(tmp_path / "twin")
    layers = {path: layer for path, layer in kept.named_modules() if isinstance(layer, PackedLinear)}
    assert bool(packed_weights(kept)) == (kind not in NOT_PACKED)
    for path, layer in layers.items():
        # The floats of NF4's table are rounded to whole numbers; 112 stands for 1, and the largest scale is 0.11.
        allowed = 0.11 / 112 / 2 if kind.startswith("nf4") else 0.0
        assert torch.allclose(layer.weight, twin.get_submodule(path).weight, rtol=0, atol=allowed)
    for path, experts in kept.named_modules():
        if isinstance(experts, PackedExperts):
            for packed, name in zip(experts.packed.values(), ("gate_up_proj", "down_proj"), strict=True):
                rows = getattr(twin.get_submodule(path), name).transpose(1, 2)
                assert torch.equal(dense(packed), rows.reshape(packed.shape))


@needs_kernels
@pytest.mark.parametrize("kind", ["gptq", "awq", "int-quantized", "float-quantized", "fp8", "mxfp4", "nf4"])
def test_a_quantised_folder_writes_the_same_text_with_lookahead(
    kind: str, plain: Path, tmp_path: Path
) -> None:
    write_quantised(plain, kind, tmp_path / "quantised", tmp_path / "twin")
    # A processor with instructions for bfloat16 would compute in it, and without padded steps its text may differ.
    choice = ModelChoice("tiny", dtype="float32", device="cpu")
    loaded = load(ModelFolder(tmp_path / "quantised", "tiny"), choice)
    assert (loaded.info.kept_bits > 0) == (kind not in NOT_PACKED)
    prompt = encode(loaded.tokenizer, "How do I list the files of a folder?", loaded.info.context)
    expected = says_plainly(loaded.runner, prompt, GREEDY, limit=40).tokens
    loaded.runner.forget()
    ahead = make_lookahead(Decoding("auto", rows=20))
    assert write(loaded.runner, prompt, ahead, GREEDY, limit=40).tokens == expected


@needs_kernels
def test_the_generation_config_of_a_quantised_folder_is_read(tmp_path: Path) -> None:
    LlamaForCausalLM(tiny_config(hidden=64, intermediate=96)).save_pretrained(tmp_path / "plain")
    with_tokenizer(tmp_path / "plain")
    write_quantised(tmp_path / "plain", "awq", tmp_path / "quantised", tmp_path / "twin")
    (tmp_path / "quantised" / "generation_config.json").write_text('{"eos_token_id": [2, 7]}')
    assert load(ModelFolder(tmp_path / "quantised", "tiny"), ModelChoice("tiny", device="cpu")).eos_ids == {
        2,
        7,
    }


@needs_kernels
def test_large_linears_of_floats_are_quantised_beside_packed_weights(tmp_path: Path) -> None:
    """A program may leave out some layers, as here the MLP's products of the first layer."""
    config = tiny_config(hidden=64, intermediate=16_416)
    LlamaForCausalLM(config).save_pretrained(tmp_path / "plain")
    with_tokenizer(tmp_path / "plain")
    write_quantised(tmp_path / "plain", "awq", tmp_path / "quantised", tmp_path / "twin")
    name, layer = "model.layers.0.mlp.up_proj", load_file(tmp_path / "plain" / "model.safetensors")
    weights = tmp_path / "quantised" / "model.safetensors"
    parts = {key: part for key, part in load_file(weights).items() if not key.startswith(name)}
    save_file(parts | {f"{name}.weight": layer[f"{name}.weight"]}, weights)
    folder = ModelFolder(tmp_path / "quantised", "tiny")
    bits = [
        [weight.bits for weight in packed_weights(load(folder, choice).runner.model)]  # type: ignore[attr-defined]
        for choice in (ModelChoice("tiny", device="cpu", quantisation=one) for one in ("auto", "none"))
    ]
    assert [each.count(8) for each in bits] == [1, 0]
    assert [each.count(4) for each in bits] == [13, 13]


@pytest.mark.parametrize("quantisation", ["auto", "none", "int8"])
@pytest.mark.parametrize(
    ("kind", "leaf", "shape", "value", "reason"),
    [
        ("int-quantized", "weight_scale", (7, 3), 1, "the scales 7 x 3 of .* do not fit"),
        ("gptq", "scales", (2, 3), 1, "do not fit"),
        ("awq", "qzeros", (1, 1), 1, "the zeros .* do not fit"),
        ("awq", "qweight", (3, 3), 1, "do not fit"),
        ("gptq", "scales", (), float("nan"), "the scales of .* are not numbers"),
        ("mxfp4", "down_proj_scales", (4, 64, 3), 120, "the blocks .* do not fit"),
        ("nf4", "absmax", (7,), 1, "the numbers of .* do not fit its scales"),
        ("nf4", "absmax", (), float("nan"), "the scales of .* are not numbers"),
        ("nf4", "bitsandbytes__nf4", (1,), ord("7"), "the sizes that are stated for .* are not valid"),
        ("llm.int8", "SCB", (3,), 1, "do not fit"),
        ("llm.int8", "weight_format", (), 2, "in an order for a certain GPU"),
    ],
)
def test_damaged_parts_of_a_weight_are_told_in_a_sentence(
    kind: str,
    leaf: str,
    shape: tuple[int, ...],
    value: float,
    reason: str,
    quantisation: QuantisationChoice,
    plain: Path,
    tmp_path: Path,
) -> None:
    write_quantised(plain, kind, tmp_path / "quantised", tmp_path / "twin")
    weights = tmp_path / "quantised" / "model.safetensors"
    parts = load_file(weights)
    name = next(name for name in parts if name.endswith(leaf))
    changed = torch.full(shape or parts[name].shape, value, dtype=parts[name].dtype)
    save_file(parts | {name: changed}, weights)
    with pytest.raises(ModelBroken, match=rf"could not be loaded \(.*{reason}"):
        load(ModelFolder(tmp_path / "quantised", "tiny"), ModelChoice("tiny", "float32", "cpu", quantisation))


@pytest.mark.parametrize("kind", ["gptq"])
def test_scales_that_are_missing_are_named(kind: str, plain: Path, tmp_path: Path) -> None:
    write_quantised(plain, kind, tmp_path / "quantised", tmp_path / "twin")
    weights = tmp_path / "quantised" / "model.safetensors"
    parts = load_file(weights)
    del parts[next(name for name in parts if name.endswith("scales"))]
    save_file(parts, weights)
    with pytest.raises(ModelBroken, match=r"could not be loaded \(the tensor .*scales is missing\)"):
        load(ModelFolder(tmp_path / "quantised", "tiny"), ModelChoice("tiny", "float32", "cpu"))
