"""Describes the rotary embeddings of a model in a GGUF file as transformers' configs do."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from transformers import LlamaConfig, PreTrainedConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from app.values.gguf_header import GgufHeader

Numbers = NDArray[np.float32]
FACTORS, LONG, SHORT = "rope_freqs.weight", "rope_factors_long.weight", "rope_factors_short.weight"
UNROTATED = 1e20
"""In llama.cpp's files, factors of at least this number mark the part of a head that is not rotated."""
LLAMA3 = {"low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}
"""Llama 3.1's parameters in transformers' configs. Files have only the factors that result from them."""


def shortest(value: float) -> float:
    """Return the shortest decimal number with the same float32, such as 1e-05 for 9.99999974e-06.

    A value that is not a float is returned unchanged."""
    return float(str(np.float32(value))) if isinstance(value, float) else value


def _read(header: GgufHeader, name: str) -> Numbers:
    """Read the numbers of a small tensor. Raises ValueError if they are not stored as float32."""
    tensor = next(one for one in header.tensors if one.name == name)
    if tensor.stored != "F32":
        raise ValueError(f"its tensor {name} is of the type {tensor.stored}")
    return np.fromfile(tensor.file, "<f4", tensor.numbers, offset=tensor.begin)


def rotary(header: GgufHeader, usual: PreTrainedConfig, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the config's values about rotary embeddings; {} if the architecture has none.

    `values` are the config's other values, and `usual` is a config with default values."""
    known = getattr(usual, "rope_parameters", None)
    if known is None:
        return {}
    full = known.get("full_attention", known)
    scaling = _scaling(header)
    alike = full if full.get("rope_type") in ("proportional", scaling.get("rope_type", "default")) else {}
    rope = {"rope_type": "default", **alike, "rope_theta": _base(header, "rope.freq_base", full), **scaling}
    if header.shape(LONG):
        rope |= {
            "rope_type": "longrope",
            "short_factor": _read(header, SHORT).tolist(),
            "long_factor": _read(header, LONG).tolist(),
            "original_max_position_embeddings": header.value("rope.scaling.original_context_length"),
            "attention_factor": header.value("rope.scaling.attn_factor") or 1.0,
        }
        if usual.model_type == "phimoe":  # this model has other names for the factor
            rope |= dict.fromkeys(("short_mscale", "long_mscale"), rope["attention_factor"])
    if header.shape(FACTORS):
        rope = _with_factors(rope, _read(header, FACTORS))
    more = _rotated(header, usual, values, full)
    rope |= more.pop("rope", {})
    if full is known:
        return {"rope_parameters": rope, **more}
    local = known["sliding_attention"]
    return {
        "rope_parameters": {
            "full_attention": rope,
            "sliding_attention": {**local, "rope_theta": _base(header, "rope.freq_base_swa", local)},
        }
    }


def _base(header: GgufHeader, key: str, usual: Mapping[str, Any]) -> float:
    return float(header.value(key) or usual.get("rope_theta") or 10_000.0)


def _rotated(
    header: GgufHeader, usual: PreTrainedConfig, values: Mapping[str, Any], known: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the size of the rotated part of a head as `rotary_dim`, if the config has this name, and its share of
    the head under "rope". The share is left out if it is 1 and the config states no share."""
    size = header.value("rope.dimension_count")
    if not size or "qk_rope_head_dim" in values or known.get("rope_type") == "proportional":
        return {}
    head = values.get("head_dim") or values["hidden_size"] // values["num_attention_heads"]
    more: dict[str, Any] = {"rotary_dim": size} if "rotary_dim" in vars(usual) else {}
    if size != head or "partial_rotary_factor" in known:
        more["rope"] = {"partial_rotary_factor": size / head}
    return more


def _scaling(header: GgufHeader) -> dict[str, Any]:
    """Return how frequencies are scaled, linearly or by YaRN; {} if they are not."""
    kind = header.value("rope.scaling.type")
    factor = header.value("rope.scaling.factor") or header.value("rope.scale_linear")
    if kind not in ("linear", "yarn") or not factor:
        return {}
    rope = {"rope_type": kind, "factor": factor}
    if kind == "linear":
        return rope
    given = {
        "original_max_position_embeddings": "original_context_length",
        "beta_fast": "yarn_beta_fast",
        "beta_slow": "yarn_beta_slow",
        "attention_factor": "yarn_attn_factor",
    }
    found = {name: header.value(f"rope.scaling.{key}") for name, key in given.items()}
    if strength := header.value("rope.scaling.yarn_log_multiplier"):
        # the converter stores a tenth of the value for DeepSeek's models
        strength *= 10 if header.value("attention.kv_lora_rank") else 1
        found |= dict.fromkeys(("mscale", "mscale_all_dim"), round(strength, 6))
    if scale := header.value("attention.temperature_scale"):
        found["llama_4_scaling_beta"] = scale
    return {**rope, **{name: shortest(value) for name, value in found.items() if value is not None}}


def _with_factors(rope: dict[str, Any], stored: Numbers) -> dict[str, Any]:
    """Add factors to rotary parameters: as Llama 3's parameters if the factors result from these, else as LongRoPE.

    For "proportional" embeddings only the share of rotated frequencies is added."""
    if rope["rope_type"] == "proportional":
        return {**rope, "partial_rotary_factor": float(np.mean(stored < UNROTATED))}
    count = len(stored)
    base = 1.0 / rope["rope_theta"] ** (np.arange(0, 2 * count, 2) / (2 * count))
    llama3 = {**rope, "rope_type": "llama3", "factor": float(stored.max()), **LLAMA3}
    config = LlamaConfig(hidden_size=2 * count, num_attention_heads=1, head_dim=2 * count)
    config.rope_parameters, config.max_position_embeddings = llama3, 2**20
    scaled, _ = ROPE_INIT_FUNCTIONS["llama3"](config)
    if np.allclose(base / stored, scaled.numpy(), rtol=1e-3):
        return llama3
    factors = stored.tolist()
    return {
        **rope, "rope_type": "longrope", "short_factor": factors, "long_factor": factors, "attention_factor": 1.0,
        "original_max_position_embeddings": LLAMA3["original_max_position_embeddings"],
    }  # fmt: skip
