"""A GGUF file's metadata become transformers' config; what only the tensors show is found there."""

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import CONFIG_MAPPING, LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

from app.engine.text.gguf_config import config_of
from app.values.gguf_architectures import ARCHITECTURES
from app.values.gguf_header import read_gguf_header
from tests.gguf_models import write_tensors

VALUES: dict[str, Any] = {
    "block_count": 4, "context_length": 64, "embedding_length": 32, "feed_forward_length": 48,
    "attention.head_count": 4, "attention.head_count_kv": 2, "attention.layer_norm_rms_epsilon": 1e-5,
}  # fmt: skip
GEMMA4 = {
    "attention.key_length": 8, "attention.key_length_swa": 8, "attention.sliding_window": 8,
    "attention.sliding_window_pattern": [True, True, True, False],
}  # fmt: skip
YARN = {
    "rope.scaling.type": "yarn", "rope.scaling.factor": 4.0, "rope.scaling.original_context_length": 16,
}  # fmt: skip
YARN_ROPE = {"rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0, "original_max_position_embeddings": 16}
LATENT = {
    "attention.kv_lora_rank": 16, "attention.key_length": 24, "attention.value_length": 16,
    "attention.key_length_mla": 16, "attention.value_length_mla": 8, "rope.dimension_count": 8,
}  # fmt: skip
EMBEDDING = {"token_embd.weight": torch.zeros(96, 32)}


def config(folder: Path, architecture: str, values: dict[str, Any], **tensors: torch.Tensor) -> Any:
    file = write_tensors(folder / "x.gguf", architecture, {**VALUES, **values}, {**EMBEDDING, **tensors})
    return config_of(read_gguf_header(file))


def test_every_architecture_is_one_that_transformers_builds() -> None:
    types = {known.model_type for known in ARCHITECTURES.values()}
    assert types <= set(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES) and types <= set(CONFIG_MAPPING)
    assert len(ARCHITECTURES) >= 60


def test_scaled_frequencies_of_llama_3_are_known_by_their_result(tmp_path: Path) -> None:
    rope = {
        "rope_type": "llama3", "rope_theta": 10000.0, "factor": 8.0, "low_freq_factor": 1.0,
        "high_freq_factor": 4.0, "original_max_position_embeddings": 8192,
    }  # fmt: skip
    known = LlamaConfig(hidden_size=64, num_attention_heads=1, rope_parameters=rope)
    scaled, _ = ROPE_INIT_FUNCTIONS["llama3"](known)
    plain = 1.0 / 10000.0 ** (torch.arange(0, 64, 2) / 64)
    factors = {"rope_freqs.weight": (plain / scaled).float()}
    values = {"attention.head_count": 1, "attention.key_length": 64, "embedding_length": 64}
    assert config(tmp_path, "llama", values, **factors).rope_parameters == pytest.approx(rope)


def test_longrope_of_phimoe_has_names_of_its_own_for_the_factor(tmp_path: Path) -> None:
    tensors = {f"rope_factors_{one}.weight": torch.full((4,), 1.5) for one in ("long", "short")}
    values = {"rope.scaling.original_context_length": 16, "rope.scaling.attn_factor": 1.25}
    rope = config(tmp_path, "phimoe", values, **tensors).rope_parameters
    assert rope["rope_type"] == "longrope" and rope["long_factor"] == [1.5] * 4
    assert rope["short_mscale"] == rope["long_mscale"] == rope["attention_factor"] == 1.25


@pytest.mark.parametrize(
    ("architecture", "values", "found"),
    [
        ("llama", {"expert_count": 4, "expert_used_count": 2}, {"model_type": "mixtral", "num_local_experts": 4}),
        ("llama", {}, {"rms_norm_eps": 1e-5, "tie_word_embeddings": True, "vocab_size": 96}),
        ("llama", {"nextn_predict_layers": 1}, {"num_hidden_layers": 3}),
        ("olmo2", {}, {"model_type": "olmo2"}),
        ("olmo2", {"attention.sliding_window": 8}, {"model_type": "olmo3", "sliding_window": 8}),
        ("cohere2", {"attention.sliding_window": 8}, {"sliding_window": 8}),
        (
            "gemma3",
            {"attention.sliding_window_pattern": 2, "attention.key_length": 8},
            {"layer_types": ["sliding_attention", "full_attention"] * 2, "query_pre_attn_scalar": 8},
        ),
        (
            "lfm2",
            {"attention.head_count_kv": [0, 2, 0, 2], "shortconv.l_cache": 3},
            {"layer_types": ["conv", "full_attention"] * 2, "num_key_value_heads": 2, "conv_L_cache": 3},
        ),
        ("granite", {"attention.scale": 0.5}, {"attention_multiplier": 0.5}),
        (
            "granitehybrid",
            {"attention.head_count_kv": [0, 2, 0, 2], "ssm.inner_size": 64, "ssm.time_step_rank": 4},
            {"model_type": "bamba", "attn_layer_indices": [1, 3], "intermediate_size": 48},
        ),
        ("afmoe", {"attention.sliding_window": 8}, {"mup_enabled": True}),
        ("bitnet", {}, {"hidden_act": "silu"}),
        ("exaone4", {}, {"sliding_window": None, "layer_types": ["full_attention"] * 4}),
        ("exaone4", {"attention.sliding_window": 8}, {"sliding_window": 8}),
        ("falcon-h1", {}, {"mamba_norm_before_gate": False}),
        ("gemma4", {**GEMMA4}, {"final_logit_softcapping": 30.0}),
        ("gemma4", {**GEMMA4, "final_logit_softcapping": 20.0}, {"final_logit_softcapping": 20.0}),
        ("mistral3", {}, {"model_type": "llama", "rope_parameters": {"rope_type": "default", "rope_theta": 1e4}}),
        ("qwen3vl", {}, {"model_type": "qwen3"}),
        ("deepseek2", {"expert_gating_func": 1}, {"model_type": "deepseek_v2"}),
        (
            "deepseek2",
            {"expert_gating_func": 1, "expert_group_count": 8},
            {"n_group": 8, "topk_method": "group_limited_greedy"},
        ),
        ("deepseek2", {"expert_gating_func": 2}, {"model_type": "deepseek_v3"}),
    ],
)  # fmt: skip
def test_values_of_a_file(
    architecture: str, values: dict[str, Any], found: dict[str, Any], tmp_path: Path
) -> None:
    made = config(tmp_path, architecture, values)
    assert {name: getattr(made, name) for name in found} == found


@pytest.mark.parametrize(
    ("values", "rope"),
    [
        ({"rope.freq_base": 5e5}, {"rope_type": "default", "rope_theta": 5e5}),
        (
            {"rope.scaling.type": "linear", "rope.scaling.factor": 4.0},
            {"rope_type": "linear", "rope_theta": 1e4, "factor": 4.0},
        ),
        (YARN, YARN_ROPE),
        (
            {**YARN, "rope.scaling.yarn_log_multiplier": 0.7},
            {**YARN_ROPE, "mscale": 0.7, "mscale_all_dim": 0.7},
        ),
        (
            {**YARN, **LATENT, "rope.scaling.yarn_log_multiplier": 0.0707},  # a tenth of DeepSeek's value
            {**YARN_ROPE, "mscale": 0.707, "mscale_all_dim": 0.707},
        ),
        (
            {"rope.dimension_count": 4},
            {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.5},
        ),
    ],
)
def test_rotary_embeddings_of_a_file(values: dict[str, Any], rope: dict[str, Any], tmp_path: Path) -> None:
    architecture = "deepseek2" if values.keys() >= LATENT.keys() else "llama"
    assert config(tmp_path, architecture, values).rope_parameters == rope


def test_what_attention_clips_is_told_and_a_window_that_cannot_be_is_refused(tmp_path: Path) -> None:
    clipped = config(tmp_path, "mpt", {"attention.clamp_kqv": 6.0})
    assert clipped.attn_config.clip_qkv == 6.0
    assert config(tmp_path, "lfm2", {}).model_type == "lfm2"
    with pytest.raises(ValueError, match="window"):
        config(tmp_path, "lfm2", {"attention.sliding_window": 8})
