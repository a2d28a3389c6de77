"""The text part of a model that also reads pictures or sound: the same text as the whole model's, and no towers."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import (
    MODEL_FOR_MULTIMODAL_LM_MAPPING,
    MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING,
    AutoConfig,
    PreTrainedModel,
)

from app.engine.cpu_kernels import packed_kernels
from app.engine.decoders import make_decoder
from app.engine.layers.packed_layers import PackedLinear
from app.engine.loading.loading import LoadedModel, load
from app.engine.loading.text_part import text_config
from app.values.messages import Decoding, ModelChoice, ModelFolder
from tests.engine.replies import numbers, says_plainly, write
from tests.engine.tiny import with_tokenizer
from tests.quantised_checkpoints import write_quantised
from tests.tiers import some

TEXT = {
    "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4, "head_dim": 8,
    "num_key_value_heads": 2, "vocab_size": 4096, "max_position_embeddings": 256, "pad_token_id": 0,
    "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
TURNED = {"rope_type": "default", "mrope_section": [1, 1, 2], "rope_theta": 10000.0}
EYE = {
    "hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "image_size": 32,
    "patch_size": 16,
}  # fmt: skip
TOWER = {"depth": 1, "hidden_size": 16, "intermediate_size": 16, "num_heads": 2, "out_hidden_size": 32}
EAR = {
    "d_model": 16, "encoder_layers": 1, "encoder_attention_heads": 2, "encoder_ffn_dim": 16, "hidden_size": 16,
    "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2,
}  # fmt: skip
EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16}
PIXTRAL, CLIP, SIGLIP = (
    {**EYE, "model_type": kind} for kind in ("pixtral", "clip_vision_model", "siglip_vision_model")
)


def text(kind: str, **more: Any) -> dict[str, Any]:
    return {**TEXT, "model_type": kind, **more}


MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "Mistral Small 3.2": (
        "mistral3", {"text_config": text("mistral"), "vision_config": PIXTRAL | {"head_dim": 8}}
    ),
    "Ministral 3": (
        "mistral3", {"text_config": text("ministral3"), "vision_config": PIXTRAL | {"head_dim": 8}}
    ),
    "Qwen2.5-VL": (
        "qwen2_5_vl", {"text_config": {**TEXT, "rope_parameters": TURNED}, "vision_config": TOWER}
    ),
    "Qwen3-VL-MoE": (
        "qwen3_vl_moe",
        {
            "text_config": {**TEXT, **EXPERTS, "rope_parameters": TURNED},
            "vision_config": {**TOWER, "deepstack_visual_indexes": [0]},
        },
    ),
    "Gemma 3": (
        "gemma3",
        {
            "text_config": text("gemma3_text", sliding_window=16) | {"num_hidden_layers": 6},
            "vision_config": SIGLIP,
            "mm_tokens_per_image": 4,
        },
    ),
    "Gemma 3n": (
        "gemma3n",
        {
            "text_config": {
                **TEXT, "num_hidden_layers": 4, "vocab_size_per_layer_input": 4096, "laurel_rank": 8,
                "hidden_size_per_layer_input": 8, "num_kv_shared_layers": 2, "altup_num_inputs": 2,
                "layer_types": ["sliding_attention", "full_attention"] * 2,
                "activation_sparsity_pattern": [0.0] * 4,
            },
            "vision_config": {"hidden_size": 16, "vocab_size": 16, "vocab_offset": 4096},
            "audio_config": {
                "hidden_size": 16, "conf_num_hidden_layers": 1, "conf_num_attention_heads": 2, "vocab_offset": 4112,
                "vocab_size": 16,
            },
        },
    ),
    "Llava": ("llava", {"text_config": text("llama"), "vision_config": CLIP}),
    "Idefics 3": ("idefics3", {"text_config": text("llama"), "vision_config": EYE}),
    "Aya Vision": ("aya_vision", {"text_config": text("cohere2"), "vision_config": SIGLIP}),
    "Qwen2-Audio": ("qwen2_audio", {"text_config": text("qwen2"), "audio_config": EAR}),
    "Voxtral": ("voxtral", {"text_config": text("llama"), "audio_config": EAR}),
    "Audio Flamingo 3": ("audioflamingo3", {"text_config": text("qwen2"), "audio_config": EAR}),
    "Qwen2.5-Omni": (
        "qwen2_5_omni_thinker",
        {"text_config": {**TEXT, "rope_parameters": TURNED}, "vision_config": TOWER, "audio_config": EAR},
    ),
}  # fmt: skip
COMMON = ("Ministral 3", "Qwen2.5-VL", "Gemma 3n", "Audio Flamingo 3")
"""The default suite's."""

Written = tuple[PreTrainedModel, ModelFolder]


@pytest.fixture
def save(tmp_path: Path) -> Callable[[str], Written]:
    """Write a tiny model of this name as transformers writes it, with all its towers."""

    def make(name: str) -> Written:
        kind, values = MODELS[name]
        config = text_config(
            AutoConfig.for_model(kind, **values)
        )  # without the package that Gemma 3n's eyes need
        torch.manual_seed(1)
        listed = (MODEL_FOR_MULTIMODAL_LM_MAPPING, MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING)
        table = next(one for one in listed if type(config) in one)
        model = table[type(config)]._from_config(config, dtype=torch.float32)
        for parameter in model.parameters():
            parameter.data *= 3.0
        model.save_pretrained(tmp_path)
        file = tmp_path / "config.json"
        known = json.loads(AutoConfig.for_model(kind, **values).to_json_string())
        file.write_text(
            json.dumps({**json.loads(file.read_text()), "vision_config": known.get("vision_config")})
        )
        return model.eval(), with_tokenizer(tmp_path)

    return make


def loaded_from(folder: ModelFolder) -> LoadedModel:
    return load(folder, ModelChoice(folder.name, device="cpu", dtype="float32"))


@pytest.mark.parametrize("name", some({name: name for name in MODELS}, *COMMON))
def test_the_text_part_writes_what_the_whole_model_writes(save: Callable[[str], Written], name: str) -> None:
    whole, folder = save(name)
    found = loaded_from(folder)
    prompt = (*numbers(24), *numbers(12))
    plainly = says_plainly(found.runner, prompt, limit=24).tokens
    drafted = write(found.runner, prompt, make_decoder(Decoding("lookahead")), limit=24).tokens
    ids = torch.tensor([prompt])
    own = whole.generate(  # type: ignore[operator]
        ids,
        attention_mask=torch.ones_like(ids),
        max_new_tokens=24,
        min_new_tokens=24,
        do_sample=False,
        pad_token_id=0,
    )
    assert drafted == plainly
    assert plainly == tuple(own[0, len(prompt) :].tolist())


def test_no_tower_is_read_and_that_is_told(save: Callable[[str], Written]) -> None:
    whole, folder = save("Ministral 3")
    found = loaded_from(folder)
    names = [name for name, _ in found.runner.model.named_parameters()]  # type: ignore[attr-defined]
    assert names and not [name for name in names if "vision" in name or "projector" in name]
    assert found.info.parameters < sum(one.numel() for one in whole.parameters())
    assert found.info.note("parts") == "It is loaded as a text model: pictures are not read here."
    assert found.eos_ids == {2}


@pytest.mark.skipif(packed_kernels() is None, reason="there is no C compiler here")
@pytest.mark.parametrize("name", ["Mistral Small 3.2", "Gemma 3", "Idefics 3", "Audio Flamingo 3"])
def test_a_quantised_text_part_stays_packed(
    save: Callable[[str], Written], name: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    _, folder = save(name)
    written = tmp_path_factory.mktemp("written")
    write_quantised(folder.path, "int-quantized", written / "quantised", written / "twin")
    kept, twin = (loaded_from(ModelFolder(written / each, name)) for each in ("quantised", "twin"))
    own = dict(twin.runner.model.named_modules())  # type: ignore[attr-defined]
    # Layers that are joined in one of the models have other names there.
    layers = [(layer, own[path]) for path, layer in packed_linears(kept).items() if path in own]
    assert layers and not packed_linears(twin)
    assert all(torch.equal(layer.weight, dense.weight) for layer, dense in layers)


def packed_linears(loaded: LoadedModel) -> dict[str, PackedLinear]:
    modules = loaded.runner.model.named_modules()  # type: ignore[attr-defined]
    return {path: one for path, one in modules if isinstance(one, PackedLinear)}


def test_sizes_may_be_written_as_floats(save: Callable[[str], Written]) -> None:
    _, folder = save("Llava")
    file = folder.path / "config.json"
    values = json.loads(file.read_text())
    values["text_config"] |= {"hidden_size": 32.0, "max_position_embeddings": 256.0}
    file.write_text(json.dumps(values))
    assert loaded_from(folder).info.context == 256
