"""What a model's config says: its context, the shape of its attention, the tokens that end a reply."""

from collections.abc import Iterable
from dataclasses import replace

import torch
from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

from app.engine.attention.selector import HeadShape
from app.engine.runner.kv_cache import layer_windows
from app.values.model import UNKNOWN_CONTEXT


def heads_of(config: PreTrainedConfig, dtype: torch.dtype) -> HeadShape:
    """The shape of a model's attention; that of the largest heads where layers differ, as Gemma 4's do."""
    layers = config.per_layer_config if getattr(config, "is_heterogeneous", False) else [config]
    largest = max((_layer_heads(layer, dtype) for layer in layers), key=lambda heads: heads.size)
    windows = tuple(sorted(set(layer_windows(config)))) or (0,)
    return replace(largest, windows=windows, softcap=getattr(config, "attn_logit_softcapping", None))


def _layer_heads(config: PreTrainedConfig, dtype: torch.dtype) -> HeadShape:
    count = int(getattr(config, "num_attention_heads", None) or 1)
    size = getattr(config, "head_dim", None) or config.hidden_size // count
    return HeadShape(count, int(getattr(config, "num_key_value_heads", None) or count), int(size), dtype)


def context_of(config: PreTrainedConfig) -> int:
    """How many positions the model has; dynamic rotary tables stretch them by their factor."""
    positions = getattr(config, "max_position_embeddings", None)
    if not positions:
        return UNKNOWN_CONTEXT
    rope = getattr(config, "rope_parameters", None) or {}
    factor = rope.get("factor", 1) if rope.get("rope_type") == "dynamic" else 1
    return int(positions * factor)


def eos_ids(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> frozenset[int]:
    """Every id that ends a reply, by the generation config, the config and the tokenizer."""
    generation = model.generation_config.eos_token_id if model.generation_config else None
    return frozenset(
        [*_ids(generation), *_ids(model.config.eos_token_id), *_ids(getattr(tokenizer, "eos_token_id", None))]
    )


def _ids(value: int | Iterable[int] | None) -> list[int]:
    if value is None:
        return []
    return [value] if isinstance(value, int) else list(value)
