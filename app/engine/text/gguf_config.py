"""Makes transformers' config of a model from the header of its GGUF file.

A config with default values shows which names the architecture knows. Each value of the file gets the first of its
possible names that is known."""

from collections.abc import Callable, Mapping, Sequence
from statistics import NormalDist
from typing import Any

from transformers import CONFIG_MAPPING, PreTrainedConfig

from app.engine.text.gguf_rope import rotary, shortest
from app.values.gguf_architectures import ARCHITECTURES, GgufArchitecture
from app.values.gguf_header import EMBEDDING, HEAD, GgufHeader

KEYS: Mapping[str, Sequence[str]] = {
    "context_length": ("max_position_embeddings", "max_seq_len"),
    "embedding_length": ("hidden_size",),
    "embedding_length_per_layer_input": ("hidden_size_per_layer_input",),
    "feed_forward_length": ("intermediate_size_mlp", "intermediate_size", "n_inner", "ffn_hidden_size"),
    "attention.head_count": ("num_attention_heads",),
    "attention.head_count_kv": ("num_key_value_heads", "num_kv_heads"),
    "attention.key_length_swa": ("head_dim",),
    "attention.value_length_mla": ("v_head_dim",),
    "attention.layer_norm_rms_epsilon": ("rms_norm_eps", "layer_norm_epsilon", "norm_eps", "layernorm_epsilon"),
    "attention.layer_norm_epsilon": (
        "layer_norm_eps", "layer_norm_epsilon", "norm_epsilon", "norm_eps", "rms_norm_eps",
    ),
    "attention.clamp_kqv": ("clip_qkv",),
    "attention.sliding_window": ("sliding_window", "attention_chunk_size"),
    "attention.shared_kv_layers": ("num_kv_shared_layers",),
    "attention.q_lora_rank": ("q_lora_rank",),
    "attention.kv_lora_rank": ("kv_lora_rank",),
    "attention.indexer.head_count": ("index_n_heads",),
    "attention.indexer.key_length": ("index_head_dim",),
    "attention.indexer.top_k": ("index_topk",),
    "attention.scale": ("attention_multiplier",),
    "attn_logit_softcapping": ("attn_logit_softcapping",),
    "final_logit_softcapping": ("final_logit_softcapping",),
    "logit_scale": ("logit_scale", "logits_scaling"),
    "embedding_scale": ("embedding_multiplier",),
    "residual_scale": ("residual_multiplier",),
    "expert_count": ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts"),
    "expert_used_count": ("num_experts_per_tok", "top_k_experts", "moe_topk", "moe_k", "moe_top_k"),
    "expert_feed_forward_length": ("moe_intermediate_size", "intermediate_size"),
    "expert_shared_count": (
        "n_shared_experts", "num_shared_experts", "moe_num_shared_experts", "num_shared_expert",
    ),
    "expert_shared_feed_forward_length": (
        "shared_expert_intermediate_size", "shared_intermediate_size", "moe_shared_expert_intermediate_size",
    ),
    "expert_weights_norm": ("norm_topk_prob", "route_norm"),
    "expert_weights_scale": ("routed_scaling_factor", "route_scale"),
    "expert_group_count": ("n_group",),
    "expert_group_used_count": ("topk_group",),
    "leading_dense_block_count": ("first_k_dense_replace", "num_dense_layers", "moe_layer_start_index"),
    "interleave_moe_layer_step": ("interleave_moe_layer_step", "moe_layer_interval"),
    "use_parallel_residual": ("use_parallel_residual",),
    "shortconv.l_cache": ("conv_L_cache",),
    "ssm.conv_kernel": ("conv_kernel", "mamba_d_conv", "linear_conv_kernel_dim"),
    "ssm.state_size": ("state_size", "ssm_state_size", "mamba_d_state", "linear_key_head_dim"),
    "ssm.group_count": ("n_groups", "mamba_n_groups", "linear_num_key_heads"),
    "ssm.time_step_rank": (
        "num_heads", "mamba_num_heads", "mamba_n_heads", "linear_num_value_heads", "time_step_rank",
        "mamba_dt_rank",
    ),
    "ssm.inner_size": ("mamba_d_ssm",),
    "rope.scaling.original_context_length": ("original_max_position_embeddings",),
    "altup.num_inputs": ("altup_num_inputs",),
    "altup.active_idx": ("altup_active_idx",),
}  # fmt: skip
"""Keys of a file, and the names that the same value may have in transformers' configs."""
FLAGS: Mapping[str, Sequence[str]] = {
    "attention_bias": ("blk.#.attn_q.bias", "blk.#.attn_qkv.bias"),
    "attention_out_bias": ("blk.#.attn_output.bias",),
    "bias": ("blk.#.attn_qkv.bias",),
    "use_bias": ("blk.#.attn_q.bias",),
    "use_qkv_bias": ("blk.#.attn_q.bias",),
    "use_qk_norm": ("blk.#.attn_q_norm.weight",),
    "qk_layernorm": ("blk.#.attn_q_norm.weight",),
    "mlp_bias": ("blk.#.ffn_up.bias",),
    "lm_head_bias": ("output.bias",),
    "mamba_rms_norm": ("blk.#.ssm_norm.weight",),
}
"""Switches of transformers' configs, and the tensors that a file has if they are on."""
SCORES = {1: "softmax", 2: "sigmoid"}
"""The functions that score experts, by their numbers in llama.cpp."""
MIXTURES = {"llama": "mixtral"}
"""Architectures whose models with experts have another name in transformers, and this name."""


def config_of(header: GgufHeader) -> PreTrainedConfig:
    """Return the config of the model in a file. Raises errors of any type for missing or impossible values."""
    known = ARCHITECTURES[header.architecture]
    kind = CONFIG_MAPPING[_model_type(header, known.model_type)]
    usual = kind()
    score = SCORES.get(header.value("expert_gating_func") or 0)
    method = "group_limited_greedy" if (header.value("expert_group_count") or 1) > 1 else "greedy"
    scoring = {"scoring_func": score, "topk_method": method}
    values = _plain(header, usual)
    values |= {name: value for name, value in scoring.items() if value and name in _names_of(usual)}
    roles = {"bos_token_id": "bos", "eos_token_id": "eos", "pad_token_id": "padding"}
    values |= {name: header.values.get(f"tokenizer.ggml.{key}_token_id") for name, key in roles.items()}
    values |= {"vocab_size": header.shape(EMBEDDING)[0], "tie_word_embeddings": not header.shape(HEAD)}
    values |= {**_heads(header, usual, values), **_layers(header, known), **_recurrent(header, usual, values)}
    if rule := RULES.get(usual.model_type):
        values |= rule(header)
    values = {**known.config, **values, **rotary(header, usual, values)}
    named = {usual.attribute_map.get(name, name): value for name, value in values.items()}
    derived = {name for name, found in vars(kind).items() if isinstance(found, property)}
    return kind(**{name: value for name, value in named.items() if name not in derived})


def _names_of(config: PreTrainedConfig) -> set[str]:
    return {*vars(config), *config.attribute_map}


def _model_type(header: GgufHeader, usual: str) -> str:
    if header.value("expert_count"):
        usual = MIXTURES.get(usual, usual)
    if usual == "mamba" and header.value("ssm.dt_b_c_rms"):
        return "falcon_mamba"
    if usual == "olmo2" and header.value("attention.sliding_window"):
        return "olmo3"
    if usual == "granitemoehybrid" and not header.value("expert_shared_feed_forward_length"):
        return "bamba"
    if usual == "ministral3" and header.value("rope.scaling.type") != "yarn":
        return "llama"
    is_sigmoid = header.value("expert_gating_func") == 2 or header.shape("blk.#.exp_probs_b.bias")
    if usual == "deepseek_v3" and not is_sigmoid:
        return "deepseek_v2"
    return usual


def _plain(header: GgufHeader, usual: PreTrainedConfig) -> dict[str, Any]:
    """Return switches, and the values that are only renamed. If a value differs by layer, the largest is taken."""
    known = _names_of(usual)
    switches = {name: any(map(header.shape, tensors)) for name, tensors in FLAGS.items() if name in known}
    values: dict[str, Any] = {**switches}
    for key, names in KEYS.items():
        found = header.value(key)
        if isinstance(found, list) and found:
            found = max(found)
        if key == "attention.sliding_window" and not found:
            continue
        if found is not None and (name := next((one for one in names if one in known), "")):
            values[name] = shortest(found)
    return values


def _heads(header: GgufHeader, usual: PreTrainedConfig, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the sizes of attention heads, also if their keys and values are compressed (MLA)."""
    size = header.value("attention.key_length_swa") or header.value("attention.key_length")
    if not header.value("attention.kv_lora_rank"):
        if size is None and "head_dim" in _names_of(usual) and values.get("num_attention_heads"):
            size = values["hidden_size"] // values["num_attention_heads"]
        return {} if size is None else {"head_dim": size}
    rotated = header.value("rope.dimension_count")
    return {
        "q_lora_rank": header.value("attention.q_lora_rank"),
        "head_dim": rotated,
        "qk_rope_head_dim": rotated,
        "qk_nope_head_dim": (header.value("attention.key_length_mla") or size) - rotated,
        "v_head_dim": header.value("attention.value_length_mla") or header.value("attention.value_length"),
        "num_key_value_heads": header.value("attention.head_count"),
    }


def _recurrent(header: GgufHeader, usual: PreTrainedConfig, values: Mapping[str, Any]) -> dict[str, Any]:
    """Compute sizes of recurrent layers from their inner size; return {} if the model has no such layers."""
    inner, heads = header.value("ssm.inner_size"), header.value("ssm.time_step_rank")
    if not inner:
        return {}
    expand, size = inner / values["hidden_size"], inner // heads
    sizes = dict.fromkeys(("expand", "mamba_expand"), int(expand) if expand.is_integer() else expand)
    sizes |= dict.fromkeys(("mamba_d_head", "mamba_head_dim", "linear_value_head_dim"), size)
    more = {"mamba": {"intermediate_size": inner}, "mamba2": {"head_dim": size}}
    known = {name: value for name, value in sizes.items() if name in _names_of(usual)}
    return known | more.get(usual.model_type.removeprefix("falcon_"), {})


def _layer_count(header: GgufHeader) -> int:
    """Return the number of layers, without the layers that only draft."""
    return int(header.value("block_count")) - int(header.value("nextn_predict_layers") or 0)


def _layers(header: GgufHeader, known: GgufArchitecture) -> dict[str, Any]:
    """Return `num_hidden_layers`, and `layer_types` if the file gives a pattern of kinds."""
    count = _layer_count(header)
    kind, pattern = "sliding_attention", header.value("attention.sliding_window_pattern")
    if pattern is None:
        kind = known.recurrent
        pattern = header.value("attention.recurrent_layers") or header.value("full_attention_interval")
        if isinstance(heads := header.value("attention.head_count_kv"), list) and 0 in heads:
            pattern = [not one for one in heads]
    if isinstance(pattern, int) and pattern > 1:
        pattern = [bool((place + 1) % pattern) for place in range(count)]
    if not isinstance(pattern, list) or not kind:
        return {"num_hidden_layers": count}
    return {
        "num_hidden_layers": count,
        "layer_types": [kind if one else "full_attention" for one in pattern[:count]],
    }


def _exaone4(header: GgufHeader) -> dict[str, Any]:
    """Return values that let all layers attend to the whole text; {} if the file has a sliding window."""
    all_full = {"sliding_window": None, "layer_types": ["full_attention"] * _layer_count(header)}
    return {} if header.value("attention.sliding_window") else all_full


def _falcon(header: GgufHeader) -> dict[str, Any]:
    two = bool(header.shape("blk.#.attn_norm_2.weight"))
    several = header.value("attention.head_count_kv") > 1
    return {
        "new_decoder_architecture": two or several,
        "multi_query": not several,
        "num_ln_in_parallel_attn": 2 if two else 1,
        "alibi": False,
    }


def _gemma(header: GgufHeader) -> dict[str, Any]:
    """Return the number whose inverse square root scales attention.

    The number is the size of a head or, in models of 27 billion parameters, the width per head. As in
    llama.cpp, such models are recognised by their number of layers."""
    heads = header.value("attention.head_count")
    large = header.value("block_count") in (46, 62)
    size = header.value("embedding_length") // heads if large else header.value("attention.key_length")
    return {"query_pre_attn_scalar": size}


def _gemma3n(header: GgufHeader) -> dict[str, Any]:
    scales, feed = header.value("activation_sparsity_scale"), header.value("feed_forward_length")
    return {
        "vocab_size_per_layer_input": header.shape("per_layer_token_embd.weight")[0],
        "laurel_rank": header.shape("blk.#.laurel_l.weight")[0],
        "intermediate_size": feed if isinstance(feed, list) else [feed] * header.value("block_count"),
        "activation_sparsity_pattern": [
            round(NormalDist().cdf(one), 6) if one > 0 else 0.0 for one in scales
        ],
    }


def _gemma4(header: GgufHeader) -> dict[str, Any]:
    embedding = header.shape("per_layer_token_embd.weight")
    feed, kv = header.value("feed_forward_length"), header.value("attention.head_count_kv")
    names = {tensor.name for tensor in header.tensors}
    keys = [name for name in names if name.endswith(".attn_k.weight")]
    values = {
        "global_head_dim": header.value("attention.key_length"),
        "vocab_size_per_layer_input": (embedding or header.shape(EMBEDDING))[0],
        "enable_moe_block": bool(header.value("expert_count")),
        "use_double_wide_mlp": isinstance(feed, list) and max(feed) > min(feed),
        "intermediate_size": min(feed) if isinstance(feed, list) else feed,
        "attention_k_eq_v": any(name.replace("attn_k", "attn_v") not in names for name in keys),
    }
    if isinstance(kv, list):
        local = header.value("attention.sliding_window_pattern")
        values["num_key_value_heads"] = kv[local.index(True)]
        values["num_global_key_value_heads"] = kv[local.index(False)]
    return values


def _jamba(header: GgufHeader) -> dict[str, Any]:
    """Return offset and period of the layers with attention and of the layers with experts, and other values."""
    attention = [place for place, heads in enumerate(header.value("attention.head_count_kv")) if heads]
    count = range(header.value("block_count"))
    experts = [place for place in count if header.shape(f"blk.{place}.ffn_gate_inp.weight")]
    return {
        **_period("attn_layer", attention, len(count)), **_period("expert_layer", experts, len(count)),
        "num_key_value_heads": max(header.value("attention.head_count_kv")), "use_mamba_kernels": False,
    }  # fmt: skip


def _period(name: str, places: list[int], count: int) -> dict[str, int]:
    period = places[1] - places[0] if len(places) > 1 else count
    return {f"{name}_offset": places[0] if places else count, f"{name}_period": period}


def _nemotron_h(header: GgufHeader) -> dict[str, Any]:
    kinds = []
    for place in range(_layer_count(header)):
        has = {one.name.split(".")[2] for one in header.tensors if one.name.startswith(f"blk.{place}.")}
        kind = "full_attention" if "attn_q" in has else "linear_attention" if "ssm_in" in has else "mlp"
        kinds.append("moe" if "ffn_gate_inp" in has else kind)
    return {"layer_types": kinds}


def _granite_hybrid(header: GgufHeader) -> dict[str, Any]:
    # llama.cpp's converter writes false for a model without rotary embeddings
    rotates = header.value("rope.scaling.finetuned") is not False
    return {
        "position_embedding_type": "rope" if rotates else None,
        "num_local_experts": header.value("expert_count") or 0,
    }


def _lfm2(header: GgufHeader) -> dict[str, Any]:
    """Raise ValueError if attention has a sliding window, which transformers' model lacks; otherwise return {}."""
    if header.value("attention.sliding_window"):
        raise ValueError(
            "its attention has a sliding window, which transformers does not support for its architecture"
        )
    return {}


RULES: Mapping[str, Callable[[GgufHeader], dict[str, Any]]] = {
    "bamba": lambda header: {
        "attn_layer_indices": [at for at, one in enumerate(header.value("attention.head_count_kv")) if one]
    },
    # only Maverick has 128 experts (as in llama.cpp)
    "llama4_text": lambda header: {"use_qk_norm": header.value("expert_count") != 128},
    "mpt": lambda header: {"attn_config": {"clip_qkv": header.value("attention.clamp_kqv")}},
    "exaone4": _exaone4, "falcon": _falcon, "gemma2": _gemma, "gemma3_text": _gemma,
    "gemma3n_text": _gemma3n, "gemma4_text": _gemma4, "granitemoehybrid": _granite_hybrid, "jamba": _jamba,
    "lfm2": _lfm2, "lfm2_moe": _lfm2, "nemotron_h": _nemotron_h,
}  # fmt: skip
"""Rules for single architectures, by transformers' name."""
