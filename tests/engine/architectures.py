"""Tiny random models of many architectures, built from configs in a moment and downloaded from nowhere.

Their weights are large, so that greedy text is varied: on text that repeats one token, every decoder agrees with
every other. `BRANCHING` models decode blocks; those of `OWN_ATTENTION` have a bias by position or read in chunks,
and take chains. Those that carry a recurrent state are in `recurrent_architectures.py`.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pytest
import torch
import transformers
from transformers import (
    MODEL_FOR_CAUSAL_LM_MAPPING,
    AutoModelForCausalLM,
    AutoModelForImageTextToText,
    PreTrainedModel,
)

from tests.tiers import named, some

VOCABULARY = 128
CONTEXT = 256
LONG = 1024
"""The context of recurrent models: room for a prompt that is read in several chunks."""
WINDOW = 12
"""Of sliding layers: prompts and replies here are longer."""
SWITCH = 32
"""The length at which rotary tables change, where they do."""


Settings = dict[str, Any]
"""What a config is told."""


@dataclass(frozen=True, slots=True)
class Architecture:
    """A model that can be made again and again, each time with the same weights."""

    name: str
    make: Callable[[], PreTrainedModel]
    use_cache: bool = True
    """Whether transformers' own generate is the reference with its cache, or without."""

    def __str__(self) -> str:
        return self.name


def architecture(
    name: str, family: str, *, seed: int = 0, context: int = CONTEXT, **settings: Any
) -> Architecture:
    """The causal language model of a family, tiny but for these settings of its config.

    `seed` is one whose weights have much to say."""
    settings = {**_SHAPE, "max_position_embeddings": context, **settings}
    return Architecture(name, partial(_build, family, seed, settings))


_SHAPE: Settings = {
    "vocab_size": VOCABULARY, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "initializer_range": 0.3, "tie_word_embeddings": False,
    "bos_token_id": None, "eos_token_id": None, "pad_token_id": None,
}  # fmt: skip


_TOWER: Settings = {
    "depth": 1,
    "hidden_size": 16,
    "intermediate_size": 16,
    "num_heads": 2,
    "out_hidden_size": 32,
}


def _build(family: str, seed: int, settings: Settings) -> PreTrainedModel:
    config = getattr(transformers, f"{family}Config")(**settings)
    make: Any = AutoModelForCausalLM.from_config  # untyped there
    if type(config) not in MODEL_FOR_CAUSAL_LM_MAPPING:  # transformers has it only beside a vision tower
        whole = getattr(transformers, f"{family.removesuffix('Text')}Config")
        config = whole(text_config=settings, vision_config=_TOWER, eos_token_id=None)
        make = AutoModelForImageTextToText.from_config
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model: PreTrainedModel = make(config, dtype=torch.float32)
    model.requires_grad_(False).train(False)
    return model


_MIXED: Settings = {
    "head_dim": 8,
    "num_hidden_layers": 4,
    "sliding_window": WINDOW,
    "layer_types": ["sliding_attention", "full_attention"] * 2,
}
_GPT2: Settings = {"n_embd": 32, "n_layer": 2, "n_head": 4}
_OPT: Settings = {"ffn_dim": 48, "word_embed_proj_dim": 32, "init_std": 0.3}
_EXPERTS: Settings = {"num_experts_per_tok": 2, "num_local_experts": 4}
QWEN_EXPERTS: Settings = {
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 32,
    "shared_expert_intermediate_size": 32,
}
DEEPSEEK: Settings = {
    "num_key_value_heads": 4, "kv_lora_rank": 16, "q_lora_rank": 16, "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 16, "v_head_dim": 12, "n_routed_experts": 4, "n_group": 1, "topk_group": 1,
    "num_experts_per_tok": 2, "moe_intermediate_size": 32, "first_k_dense_replace": 1,
}  # fmt: skip
_PER_LAYER_INPUT: Settings = {"vocab_size_per_layer_input": VOCABULARY, "hidden_size_per_layer_input": 8}
_LONGROPE: Settings = {
    "rope_type": "longrope",
    "rope_theta": 10_000.0,
    "short_factor": [1.0] * 4,
    "long_factor": [1.5, 2.0, 3.0, 4.0],
}
_DYNAMIC: Settings = {"rope_type": "dynamic", "rope_theta": 10_000.0, "factor": 32.0}

LLAMA = architecture("llama", "Llama", context=LONG)
GEMMA3 = architecture("gemma3", "Gemma3Text", seed=7, context=LONG, **_MIXED)


def phi3_longrope(switch: int) -> Architecture:
    """Turns every position by another table once a text is longer than `switch`."""
    rope: Settings = {**_LONGROPE, "original_max_position_embeddings": switch}
    settings: Settings = {"original_max_position_embeddings": switch, "rope_parameters": rope}
    model = architecture(f"phi3-longrope-{switch}", "Phi3", context=LONG, **settings)
    # At the switch generate has to read the text anew, which in 5.17 it does from the wrong place.
    return replace(model, use_cache=False)


def llama_dynamic(switch: int) -> Architecture:
    """Has another rotary table for every length beyond `switch`."""
    return architecture(f"llama-dynamic-{switch}", "Llama", context=switch, rope_parameters=_DYNAMIC)


def learned_positions(context: int) -> tuple[Architecture, Architecture]:
    """Models that have no place at all behind the context's end."""
    return (
        architecture(f"gpt2-{context}", "GPT2", seed=1, context=context, **_GPT2),
        architecture(f"opt-{context}", "OPT", seed=3, context=context, **_OPT),
    )


BRANCHING = (
    LLAMA,
    architecture("qwen2", "Qwen2"),
    architecture(
        "qwen2-sliding",
        "Qwen2",
        num_hidden_layers=4,
        use_sliding_window=True,
        sliding_window=WINDOW,
        max_window_layers=2,
    ),
    architecture("qwen3", "Qwen3", seed=3, head_dim=16),
    architecture("mistral", "Mistral", seed=1, sliding_window=WINDOW),
    architecture("gemma2", "Gemma2", seed=1, head_dim=8, sliding_window=WINDOW, attn_logit_softcapping=5.0),
    GEMMA3,
    architecture("phi3", "Phi3", sliding_window=WINDOW),
    architecture("gpt2", "GPT2", seed=1, **_GPT2),
    *(
        [architecture("gptj", "GPTJ", seed=2, rotary_dim=4, **_GPT2)]
        if transformers.GPTJForCausalLM._supports_attention_backend  # since transformers 5.24
        else ()
    ),
    architecture("gpt-neox", "GPTNeoX", seed=2),
    architecture("olmo2", "Olmo2", seed=2, initializer_range=0.5),
    architecture("granite", "Granite"),
    architecture("smollm3", "SmolLM3", num_hidden_layers=4),
    architecture("mixtral", "Mixtral", **_EXPERTS),
    architecture("gpt-oss", "GptOss", head_dim=8, sliding_window=WINDOW, **_EXPERTS),
    phi3_longrope(SWITCH),
    architecture("starcoder2", "Starcoder2", sliding_window=WINDOW),
    architecture("cohere", "Cohere"),
    architecture("cohere2", "Cohere2", seed=1, **_MIXED),
    architecture("opt", "OPT", seed=3, **_OPT),
    architecture("qwen2-moe", "Qwen2Moe", **QWEN_EXPERTS),
    architecture("deepseek-v3", "DeepseekV3", **DEEPSEEK),
    architecture("gemma3n", "Gemma3nText", num_kv_shared_layers=2, **_MIXED, **_PER_LAYER_INPUT),
    architecture("gemma4", "Gemma4Text", num_kv_shared_layers=2, **_MIXED, **_PER_LAYER_INPUT),
)

IN_DEPTH = (
    "llama", "gemma2", "gemma3", "phi3-longrope-32", "gpt2", "gpt-oss", "mixtral", "deepseek-v3", "gemma4",
)  # fmt: skip
"""One of each kind: plain, capped scores, mixed windows, tables that change, learned positions, sinks, experts,
latent keys, shared caches."""

one_of_each_kind = pytest.mark.parametrize("architecture", some(named(BRANCHING), *IN_DEPTH))
"""The others with --thorough."""

OWN_ATTENTION = (
    architecture("bloom", "Bloom", seed=7, n_layer=2, n_head=4),
    architecture(
        "mpt", "Mpt", seed=6, initializer_range=0.2, d_model=32, n_layers=2, n_heads=4, max_seq_len=CONTEXT
    ),
    architecture("falcon-alibi", "Falcon", seed=1, alibi=True, new_decoder_architecture=False),
    architecture("stablelm", "StableLm"),
    architecture(
        "gpt-neo",
        "GPTNeo",
        seed=2,
        num_layers=2,
        num_heads=4,
        attention_types=[[["global", "local"], 1]],
        window_size=WINDOW,
    ),
    architecture(
        "llama4",
        "Llama4Text",
        head_dim=8,
        intermediate_size_mlp=48,
        num_local_experts=2,
        attention_chunk_size=WINDOW,
        num_hidden_layers=4,
    ),
)
