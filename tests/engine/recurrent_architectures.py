"""Tiny random models that carry a state: recurrent ones, hybrids, and some that compress what they read.

Every architecture of the installed transformers has its config here; one that an older version lacks is left out.
`TREES` branch. Those of `READ_BY_ROWS` forget their state when they are fed a chunk, so that they decode plainly.
"""

from collections.abc import Iterator

import transformers

from tests.engine.architectures import (
    DEEPSEEK,
    LONG,
    QWEN_EXPERTS,
    VOCABULARY,
    WINDOW,
    Architecture,
    Settings,
    architecture,
)

_LINEAR_THEN_FULL: Settings = {"layer_types": ["linear_attention", "full_attention"]}
_CONV_THEN_FULL: Settings = {"layer_types": ["conv", "full_attention"]}
_MAMBA2: Settings = {
    "mamba_n_heads": 8,
    "mamba_d_head": 8,
    "mamba_n_groups": 1,
    "mamba_d_state": 8,
    "mamba_chunk_size": 16,
}
_DELTA_NET: Settings = {
    **_LINEAR_THEN_FULL,
    "head_dim": 8,
    "linear_num_value_heads": 4,
    "linear_num_key_heads": 2,
    "linear_key_head_dim": 8,
    "linear_value_head_dim": 8,
}
_EXPERTS: Settings = {"num_experts_per_tok": 2, "num_local_experts": 4}
_INDEXER: Settings = {
    "indexer_n_heads": 2,
    "indexer_kv_heads": 1,
    "indexer_head_dim": 8,
    "indexer_budget": 64,
    "indexer_compress_ratio": 4,
}

_INKLING2: Settings = {
    "unpadded_vocab_size": VOCABULARY - 8,
    **{"head_dim": 8, "swa_head_dim": 8, "swa_num_attention_heads": 4, "swa_num_key_value_heads": 2},
    **{"n_routed_experts": 4, "num_experts_per_tok": 2, "sliding_window_size": WINDOW},
}
"""With a head that is narrower than the embedding."""

_FAMILIES: dict[str, tuple[str, Settings]] = {
    "mamba": ("Mamba", {"state_size": 4}),
    "falcon-mamba": ("FalconMamba", {"state_size": 4}),
    "mamba2": ("Mamba2", {"num_heads": 8, "head_dim": 8, "n_groups": 2, "state_size": 8, "chunk_size": 16}),
    "rwkv": ("Rwkv", {"attention_hidden_size": 32, "context_length": LONG}),
    "xlstm": ("xLSTM", {"hidden_size": 128, "num_heads": 4, "num_blocks": 2}),
    "qwen3-next": ("Qwen3Next", {**_DELTA_NET, **QWEN_EXPERTS}),
    "qwen3.5": ("Qwen3_5Text", _DELTA_NET),
    "qwen3.5-moe": ("Qwen3_5MoeText", {**_DELTA_NET, **QWEN_EXPERTS}),
    "qwen4-exp": ("Qwen4ExpText", {**_DELTA_NET, **QWEN_EXPERTS, **_INDEXER, "hc_lowrank": 8, "hc_count": 2}),
    "olmo-hybrid": ("OlmoHybrid", {**_DELTA_NET, "linear_num_key_heads": 4}),
    "lara-mini": (
        "LaraMini",
        {
            **_DELTA_NET,
            **QWEN_EXPERTS,
            "num_hidden_layers": 4,
            "layer_types": ["linear_attention", "sliding_attention", "linear_attention", "full_attention"],
            "sliding_window": WINDOW,
        },
    ),
    "kimi-linear": (
        "KimiLinear",
        {**_LINEAR_THEN_FULL, **DEEPSEEK, "q_lora_rank": None, "linear_num_heads": 4, "linear_head_dim": 8},
    ),
    "bailing-hybrid": ("BailingHybrid", {**_LINEAR_THEN_FULL, **DEEPSEEK}),
    "glm5-next": (
        "Glm5NextText",
        {
            **DEEPSEEK,
            "num_hidden_layers": 4,
            "qk_rope_head_dim": 0,
            "mlp_layer_types": ["dense", "sparse"] * 2,
            "linear_num_heads": 4,
            "linear_head_dim": 8,
            "hc_mult": 2,
            "index_topk": 64,
            "index_kpool": 4,
            "index_n_heads": 32,  # with fewer, many scores are equal (0)
            "index_head_dim": 8,
        },
    ),
    "minimax": ("MiniMax", {**_LINEAR_THEN_FULL, **_EXPERTS, "head_dim": 8, "block_size": 16}),
    "lfm2": ("Lfm2", {**_CONV_THEN_FULL, "block_multiple_of": 8}),
    "lfm2-moe": (
        "Lfm2Moe",
        {
            **_CONV_THEN_FULL,
            "num_experts": 4,
            "num_experts_per_tok": 2,
            "moe_intermediate_size": 32,
            "num_dense_layers": 1,
        },
    ),
    "lfm3": ("Lfm3", _CONV_THEN_FULL),
    "jamba": (
        "Jamba",
        {
            "attn_layer_period": 2,
            "attn_layer_offset": 1,
            "expert_layer_period": 2,
            "expert_layer_offset": 1,
            "num_experts": 4,
            "mamba_d_state": 4,
        },
    ),
    "bamba": ("Bamba", {"attn_layer_indices": [1], **_MAMBA2}),
    "falcon-h1": ("FalconH1", {"mamba_d_ssm": 64, **_MAMBA2}),
    "granite-hybrid": (
        "GraniteMoeHybrid",
        {**_EXPERTS, **_MAMBA2, "shared_intermediate_size": 48, "layer_types": ["mamba", "attention"]},
    ),
    "nemotron-h": (
        "NemotronH",
        {
            "seed": 7,
            "num_hidden_layers": 4,
            "layers_block_type": ["mamba", "attention", "mlp", "mamba"],
            "head_dim": 8,
            "mamba_num_heads": 8,
            "mamba_head_dim": 8,
            "n_groups": 1,
            "ssm_state_size": 8,
            "chunk_size": 16,
        },
    ),
    "zamba": (
        "Zamba",
        {
            "num_hidden_layers": 4,
            "attn_layer_period": 2,
            "attn_layer_offset": 1,
            "n_mamba_heads": 2,
            "mamba_d_state": 4,
        },
    ),
    "zamba2": (
        "Zamba2",
        {
            "num_hidden_layers": 4,
            "layers_block_type": ["mamba", "hybrid"] * 2,
            "hybrid_layer_ids": [1, 3],
            "num_mem_blocks": 1,
            "mamba_d_state": 8,
            "n_mamba_heads": 8,
            "mamba_headdim": 8,
            "mamba_ngroups": 1,
            "chunk_size": 16,
        },
    ),
    "recurrent-gemma": (
        "RecurrentGemma",
        {
            "num_hidden_layers": 3,
            "head_dim": 8,
            "lru_width": 32,
            "conv1d_width": 4,
            "attention_window_size": WINDOW,
        },
    ),
    "zaya": ("Zaya", {}),
    "inkling": ("InklingText", {}),
    "inkling2": ("Inkling2Text", _INKLING2),
    "inkling2-loop": (
        "Inkling2LoopText",
        {
            **_INKLING2,
            "num_hidden_layers": 4,
            "layer_types": ["hybrid_sliding", "hybrid"] * 2,
            "n_layers_per_attn_res_block": 1,
            "loop_layer_index_start": 1,
            "loop_layer_index_end": 3,
            "loop_gate_rank": 8,
        },
    ),
    "deepseek-v4": ("DeepseekV4", {"seed": 2, "initializer_range": 0.8}),
}


def _known() -> Iterator[Architecture]:
    for name, (family, settings) in _FAMILIES.items():
        if hasattr(transformers, f"{family}Config"):
            yield architecture(name, family, context=LONG, **settings)


_TREES = frozenset(
    (
        *(
            "qwen3-next",
            "qwen3.5",
            "qwen3.5-moe",
            "olmo-hybrid",
            "lara-mini",
            "kimi-linear",
            "bailing-hybrid",
            "mamba2",
            "bamba",
            "falcon-h1",
            "granite-hybrid",
        ),
        *("nemotron-h", "zamba2", "lfm2", "lfm2-moe", "lfm3"),
    )
)
RECURRENT = tuple(_known())
FAMILIES = frozenset(family for family, _ in _FAMILIES.values())
READ_BY_ROWS = frozenset({"mamba", "falcon-mamba", "jamba", "zamba", "recurrent-gemma", "minimax"})
TREES = tuple(one for one in RECURRENT if one.name in _TREES)
"""Those whose recurrence is computed for all branches in one pass."""
CHAINED = tuple(one for one in RECURRENT if one.name not in READ_BY_ROWS | _TREES)
ONE_OF_EACH = ("qwen3-next", "kimi-linear", "mamba2", "lfm2", "falcon-h1", "qwen4-exp", "rwkv")
"""Delta nets, with a decay for each head and for each channel; state space, convolution, two kinds in one layer; a
hybrid that takes chains, no cache at all."""
