"""What cannot be loaded is recognised by its files: each kind has a true sentence, and none of them is damage."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from transformers import CONFIG_MAPPING

from app.errors import ModelError
from app.models_registry.files.config import check_config, parse_config
from app.models_registry.files.recognition import refuse_config, refuse_files, refuse_tensors
from app.models_registry.files.transformers_tables import (
    ENCODERS,
    MULTIMODAL,
    PICTURES,
    TEXT,
    TRANSLATING,
    default_values,
    is_in,
)
from app.models_registry.files.weights import Tensor, Weights, check_model
from tests.models_registry.model_files import model_files, write
from tests.quantised_checkpoints import compressed
from tests.tiers import some

LLAMA = {"model_type": "llama", "architectures": ["LlamaForCausalLM"]}


def quantised(quant_method: str, **more: object) -> dict[str, object]:
    return {**LLAMA, "quantization_config": {"quant_method": quant_method, **more}}


REFUSED: dict[str, tuple[dict[str, object], str]] = {
    "GPTQ": (quantised("gptq", bits=3), "quantised by GPTQ in a layout of its own"),
    "GPTQ with layers of other sizes": (
        quantised("gptq", bits=4, dynamic={r"+:.*\.down_proj": {"bits": 8}}), "by GPTQ in a layout of its own"
    ),
    "AutoRound with layers of other sizes": (
        quantised("auto-round", bits=4, packing_format="auto_round", extra_config={"lm_head": {"bits": 8}}),
        "quantised by AutoRound in a layout of its own",
    ),
    "rotated by AutoRound": (
        quantised("auto-round", bits=4, packing_format="auto_round", spinquant_config={}),
        "quantised by AutoRound in a layout of its own",
    ),
    "AutoRound's floats": (
        quantised("auto-round", bits=4, packing_format=["auto_round:nv_fp"]), "AutoRound in a layout of its own"
    ),
    "GPTQ in short words": (quantised("gptq", bits=4, pack_dtype="int16"), "by GPTQ in a layout of its own"),
    "AWQ": (quantised("awq", bits=4, version="gemv"), "quantised by AWQ in a layout of its own"),
    "bitsandbytes": (quantised("bitsandbytes"), "quantised by bitsandbytes in a layout of its own"),
    "compressed-tensors": (quantised("compressed-tensors"), "quantised by compressed-tensors"),
    "rotated activations": (
        quantised(**compressed("int-quantized", "int", 8), transform_config={"config_groups": {"R4": {}}}),
        "by compressed-tensors in a layout of its own",
    ),
    "sparse weights": (
        quantised(**compressed("int-quantized", "int", 8), sparsity_config={"format": "sparse-24-bitmask"}),
        "by compressed-tensors in a layout of its own",
    ),
    "NVFP4": (quantised("modelopt", quant_algo="NVFP4"), "quantised by NVIDIA ModelOpt"),
    "EXL3": (quantised("exl3", bits=4.0), "quantised by ExLlamaV3"),
    "a new form": (quantised("brand-new"), "quantised by brand-new"),
    "no method": ({**LLAMA, "quantization_config": {"bits": 4}}, "quantised by an unknown method"),
    "MLX": ({**LLAMA, "quantization": {"group_size": 64, "bits": 4}}, "quantised by MLX"),
    "MLX with both keys": (
        {**LLAMA, "quantization": {"bits": 4}, "quantization_config": {"bits": 4}}, "quantised by MLX",
    ),
    "a quantised text part": (
        {"model_type": "kimi_k25", "text_config": quantised("compressed-tensors")}, "by compressed-tensors",
    ),
    "a reward model": ({**LLAMA, "architectures": ["LlamaForSequenceClassification"]}, "rates or labels texts"),
    "EAGLE's own format": ({**LLAMA, "architectures": ["LlamaForCausalLMEagle3"]}, "drafts for another model"),
    "BERT": ({"model_type": "bert", "architectures": ["BertForMaskedLM"]}, "fills gaps"),
    "an encoder": ({"model_type": "xlm-roberta", "architectures": ["XLMRobertaModel"]}, "is an encoder"),
    "T5": ({"model_type": "t5", "architectures": ["T5ForConditionalGeneration"]}, "is an encoder-decoder model"),
    "BART": ({"model_type": "bart", "architectures": ["BartModel"]}, "is an encoder-decoder model"),
    "Whisper": ({"model_type": "whisper"}, "turns sound into text, or text into sound"),
    "a voice": ({"model_type": "vits"}, "turns sound into text, or text into sound"),
    "a voice with an encoder": ({"model_type": "dia"}, "turns sound into text, or text into sound"),
    "CLIP": ({"model_type": "clip"}, "of the kind 'clip', which is not a text model of transformers"),
    "CLIP by an old name": ({"model_type": "mlcd"}, "of the kind 'mlcd', which is not a text model"),
    "a detector with an encoder": ({"model_type": "detr"}, "of the kind 'detr', which is not a text model"),
    "a text part alone": ({"model_type": "glm4v_text"}, "which is not a text model of transformers"),
    "a prompt of its own": ({"model_type": "cpmant"}, "reads tokens of its own before each prompt, which"),
    "a model of bytes": ({"model_type": "blt"}, "reads and writes bytes instead of tokens"),
    "Florence 2": ({"model_type": "florence2"}, "is an encoder-decoder model"),
    "a captioner": ({"model_type": "blip"}, "needs pictures or sound, which"),
    "a diffusion model": ({"model_type": "diffusion_gemma"}, "does not write text token by token"),
    "a robot's model": ({"model_type": "pi0"}, "controls robots and writes no text"),
    "an unknown kind": ({"model_type": "zzz9"}, "which this version of transformers does not know"),
    "code of its own": ({"model_type": "zzz9", "auto_map": {"AutoModel": "x.Y"}}, "needs Python code of its own"),
    "no kind": ({}, "names no model_type"),
}  # fmt: skip


@pytest.mark.parametrize("kind", REFUSED)
def test_a_config_is_refused_for_its_true_cause(kind: str, tmp_path: Path) -> None:
    values, words = REFUSED[kind]
    with pytest.raises(ModelError) as refused:
        refuse_config(values, "this")
    told = str(refused.value)
    assert words in told and told.startswith(("this", "The config.json of this")) and told.endswith(".")
    assert "ownload" not in told
    with pytest.raises(ModelError, match=words):
        check_model(write(tmp_path, model_files() | {"config.json": json.dumps(values).encode()}), "this")


@pytest.mark.parametrize("method", ["fp8", "mxfp4"])
def test_what_is_widened_while_it_is_read_is_not_refused(method: str) -> None:
    refuse_config(quantised(method), "this")


@pytest.mark.parametrize(
    "config",
    [
        quantised("gptq", bits=4, dynamic={r"-:.*\.down_proj": {}, r"+:.*\.up_proj": {"group_size": 64}}),
        quantised(
            **compressed("int-quantized", "int", 8), sparsity_config={"format": "dense"}, transform_config={}
        ),
    ],
)
def test_a_config_may_state_that_nothing_else_is_changed(config: dict[str, object]) -> None:
    refuse_config(config, "this")


@pytest.mark.parametrize(
    ("files", "words"),
    [
        (
            ("config.json", "consolidated.safetensors", "params.json", "tekken.json"),
            "Mistral's own libraries",
        ),
        (("config.json", "onnx/model.onnx"), "in the format of ONNX"),
        (("config.json", "openvino_model.xml", "openvino_model.bin"), "in the format of OpenVINO"),
        (("config.json", "flax_model.msgpack"), "in the format of Flax"),
        (("weights.npz", "config.json"), "in the format of MLX"),
        (("gemma.task",), "in the format of LiteRT"),
        (("model_index.json", "unet/model.safetensors"), "diffusers pipeline"),
        (("adapter_config.json", "adapter_model.safetensors"), "It is an adapter"),
        (("config.json", "pytorch_model.bin"), "only pickled weights"),
        (("config.json", "output.safetensors"), "in the format of ExLlama"),
        (("config.json", "model.mlpackage/Manifest.json"), "in the format of Core ML"),
        (("config.json", "odd.safetensors"), "(odd.safetensors)"),
        (("config.json", "diffusion_pytorch_model.safetensors"), "or a part of one"),
        (
            ("inner/config.json", "inner/model.safetensors"),
            "models in folders (inner): choose one of them by its path",
        ),
        (
            ("checkpoint-5/config.json", "checkpoint-5/model.safetensors.index.json"),
            "in folders (checkpoint-5)",
        ),
        (("config.json", "model-00001-of-00002.safetensors"), "add the model's model.safetensors.index.json"),
        (("tokenizer.json", "model.safetensors"), "Add the model's own config.json"),
        (("tokenizer.json", "model.safetensors.index.json"), "Add the model's own config.json"),
        (("consolidated.00.pth", "params.json"), "in the format of Meta's own libraries"),
        (("config.json", "model.bin", "vocabulary.json"), "in the format of CTranslate2"),
        (("mlc-chat-config.json", "params_shard_0.bin"), "in the format of MLC LLM"),
        (("config.json", "rank0.engine"), "in the format of TensorRT"),
        (("__0_0.distcp",), "in the format of PyTorch's distributed checkpoints"),
        (("model.llamafile",), "in the format of llamafile"),
        (("config.json", "model.json", "group1-shard1of2.bin"), "in the format of TensorFlow for JavaScript"),
        (("saved_model.pb", "variables/variables.index"), "in the format of TensorFlow"),
        (("config.json", "onnx/model_q4f16.onnx", "onnx/model.onnx_data"), "in the format of ONNX"),
        (("config.json", "pytorch_model.bin", "tf_model.h5", "flax_model.msgpack"), "only pickled weights"),
        (("config.json", "optimizer.pt", "trainer_state.json", "rng_state.pth"), "the state of a training"),
        (("optimizer.bin", "random_states_0.pkl", "scheduler.bin"), "the state of a training"),
        (("config.json", "optimizer.pt", "pytorch_model.bin"), "only pickled weights"),
        (("config.json", "global_step9/mp_rank_00_model_states.pt", "latest"), "in the format of DeepSpeed"),
        (("config.json", "pytorch_model.bin.index.json"), "Only the index of pickled weights"),
        (("model.pte", "config.json"), "in the format of ExecuTorch"),
    ],
)
def test_files_show_what_they_are(files: tuple[str, ...], words: str) -> None:
    with pytest.raises(ModelError) as refused:
        refuse_files(files, "this")
    assert words in str(refused.value) and "ownload" not in str(refused.value)


def test_an_embedding_model_is_told_as_such(tmp_path: Path) -> None:
    bert = {"model_type": "bert", "architectures": ["BertModel"], "hidden_size": 64}
    files = model_files() | {"config.json": json.dumps(bert).encode(), "modules.json": b"[]"}
    with pytest.raises(ModelError, match="is an embedding model, which writes no text"):
        check_model(write(tmp_path, files), "this")


def writing_kinds() -> list[str]:
    return [kind for kind in CONFIG_MAPPING if is_in(kind, TEXT, MULTIMODAL, PICTURES, TRANSLATING)]


NEEDED = {
    "gemma4_assistant": {"text_config": {"hidden_size_per_layer_input": 0, "vocab_size_per_layer_input": 0}}
}
"""Values without which transformers refuses its own defaults."""


def config_of(kind: str) -> bytes:
    values = json.loads(CONFIG_MAPPING[kind](**NEEDED.get(kind, {})).to_json_string(use_diff=False))
    return json.dumps({**values, "model_type": kind}).encode()


USUAL = (
    "llama", "mistral3", "ministral3", "qwen3_vl", "gemma3n", "gemma4", "gpt_oss", "nemotron_h", "qwen2_5_omni",
    "dbrx", "gpt2", "bart", "audioflamingo3",
)  # fmt: skip


@pytest.mark.parametrize("kind", some({kind: kind for kind in writing_kinds()}, *USUAL))
def test_no_config_of_transformers_is_taken_for_an_impossible_one(kind: str) -> None:
    config = config_of(kind)
    check_config(config, kind)
    try:
        refuse_config(json.loads(config), kind)
    except ModelError as error:
        # an encoder, an encoder-decoder, a captioner
        assert "choose a model that answers a text with text" in str(error)
        return
    assert parse_config(config, kind).layers


@pytest.mark.parametrize("kind", ["gemma3n", "llava", "mistral3", "qwen3_vl"])
def test_sizes_are_those_of_the_text_part(kind: str) -> None:
    text = CONFIG_MAPPING[kind]().get_text_config(decoder=True)
    found = parse_config(config_of(kind), kind)
    assert (found.hidden, found.layers) == (text.hidden_size, text.num_hidden_layers)
    assert found.vocabulary == text.vocab_size
    assert "not read here" in found.note


def test_what_a_part_of_a_config_leaves_out_is_what_transformers_assumes() -> None:
    part = {"model_type": "llama", "vocab_size": 32064, "max_position_embeddings": 4096}
    found = parse_config(
        json.dumps({"model_type": "llava", "text_config": part, "vision_config": {}}).encode(), "x"
    )
    assert (found.hidden, found.layers, found.heads, found.vocabulary) == (4096, 32, 32, 32064)
    assert default_values("llama")["hidden_size"] == 4096
    assert is_in("bert", ENCODERS)


def test_sizes_of_a_decoder_taken_from_an_encoder_decoder_are_its_own() -> None:
    values = {"model_type": "bart", "architectures": ["BartForCausalLM"], "is_decoder": True, "d_model": 64} | {
        "is_encoder_decoder": False, "num_hidden_layers": 2,
        "vocab_size": 100, "decoder_layers": 3, "decoder_ffn_dim": 96,
        "decoder_attention_heads": 4, "encoder_layers": 2,
    }  # fmt: skip
    refuse_config(values, "x")
    found = parse_config(json.dumps(values).encode(), "x")
    assert (found.layers, found.intermediate, found.heads) == (3, 96, 4)


@pytest.mark.parametrize(
    ("names", "stored"),
    [
        ((".weight",), "U32"), ((".weight",), "I8"), ((".weight",), "F8_E4M3"), ((".weight", ".biases"), "BF16"),
        ((".weight._data",), "BF16"), ((".q_weight",), "BF16"), ((".indices", ".centroids.weight"), "BF16"),
        ((".codes", ".codebooks"), "BF16"),
    ],
)  # fmt: skip
def test_a_quantisation_that_no_file_names_is_known_by_the_tensors(
    names: tuple[str, ...], stored: str
) -> None:
    with pytest.raises(ModelError, match="quantised in a format that its config"):
        refuse_tensors((f"model.layers.0.mlp.up_proj{name}" for name in names), stored, "this")
    refuse_tensors(("model.layers.0.mlp.up_proj.weight",), "BF16", "this")


def test_a_padded_embedding_belongs_to_the_text_part() -> None:
    config = replace(parse_config(config_of("mistral3"), "x"), vocabulary=100, hidden=64)
    shapes = {"language_model.model.embed_tokens": (108, 64), "vision_tower.layer": (64, 64)}
    weights = Weights(tuple(Tensor(f"{name}.weight", "BF16", shape) for name, shape in shapes.items()))
    assert [one.shape for one in weights.of_text(config).tensors] == [(108, 64)]


def test_sizes_may_be_lists_and_floats() -> None:
    values = {
        "model_type": "llama", "hidden_size": 64.0, "num_hidden_layers": 2, "vocab_size": 100,
        "intermediate_size": [96, 128], "num_attention_heads": [4, 8], "max_position_embeddings": 4096.0,
    }  # fmt: skip
    found = parse_config(json.dumps(values).encode(), "x")
    assert (found.hidden, found.intermediate, found.heads, found.context) == (64, 128, 8, 4096)
