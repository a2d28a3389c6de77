"""Our attention in any transformers model, by name.

transformers hands unknown keyword arguments of a model's forward on to the registered attention function, and
builds no mask for a name that has no mask function: so the block travels as `block=BlockView(...)`, and each
layer adds what only it knows (its sliding window, soft cap, sinks).
"""

from typing import Any

import torch
from torch import Tensor
from transformers import AttentionInterface

from app.engine.attention.signature import BlockView, LayerCache, Scoring

NAME = "foresight"
"""The name under which models find this attention."""

_HARMLESS = frozenset({"position_ids", "logits_to_keep"})
"""Tensors that some models hand on to every layer although attention has no use for them."""


def attend_layer(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    block: BlockView,
    scaling: float | None = None,
    sliding_window: int | None = None,
    softcap: float | None = None,
    s_aux: Tensor | None = None,
    **others: Any,
) -> tuple[Tensor, None]:
    """What transformers calls in each layer: query [1, H, T, D], key and value [1, KV, L + T, D]."""
    del module
    _refuse_unknown(attention_mask=attention_mask, **others)
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    scoring = Scoring(scale, sliding_window or 0, softcap, s_aux)
    block.windows.append(scoring.window)
    return block.attend(query, LayerCache(key, value), block, scoring), None


def _refuse_unknown(**inputs: Any) -> None:
    """Raise ValueError for a mask, a bias or a choice of keys that this attention would leave out."""
    for name, value in inputs.items():
        if isinstance(value, Tensor) and name not in _HARMLESS:
            raise ValueError(f"attention does not know {name} {tuple(value.shape)}")


def register() -> None:
    """Make the attention known to transformers by its name; safe to repeat."""
    AttentionInterface.register(NAME, attend_layer)
