"""Attention over the committed prefix and a block, hooked into any transformers model by name.

transformers hands unknown keyword arguments of a model's forward on to the registered attention function, and
builds no mask for a name that has no mask function: so the block travels as `block=BlockView(...)`, and each
layer adds what only it knows (its sliding window, soft cap, sinks).
"""

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface

NAME = "foresight"
"""The name under which models find this attention."""

_HARMLESS = frozenset({"position_ids", "logits_to_keep"})
"""Tensors that some models hand on to every layer although attention has no use for them."""

FLOAT64_VALUES = 1 << 17
"""Keys that are widened at once: 1 MiB of them."""


@dataclass(slots=True)
class BlockView:
    """One forward pass as attention sees it: queries [T] against keys [L + T].

    `visible` [T, T] is None for a single row, which sees everything there is. A sum of rounded numbers depends on
    their order, so on where each key lies: in float64 (`is_steady`) too little to show in half precision."""

    prefix_length: int
    positions: Tensor
    visible: Tensor | None
    is_steady: bool = False  # attention is computed in float64
    windows: list[int] = field(default_factory=list)  # each layer's, in the order they ran
    _sights: dict[int, Tensor | None] = field(default_factory=dict)
    _masks: dict[tuple[int, int], Tensor | None] = field(default_factory=dict)

    def sight(self, window: int) -> Tensor | None:
        """[T, L + T], True where a query sees a key; None when it sees all. `window` 0 is no window."""
        if window not in self._sights:
            self._sights[window] = self._near(window) if window else self._full()
        return self._sights[window]

    def additive(self, window: int, copies: int, dtype: torch.dtype) -> Tensor | None:
        """The same as 0 and -inf, repeated for `copies` query heads: [copies * T, L + T].

        Built once per pass: all layers of a kind share it."""
        if (window, copies) not in self._masks:
            sight = self.sight(window)
            self._masks[window, copies] = None if sight is None else _as_bias(sight, dtype).repeat(copies, 1)
        return self._masks[window, copies]

    def _full(self) -> Tensor | None:
        if self.visible is None:
            return None
        prefix = self.visible.new_ones((1, 1)).expand(len(self.positions), self.prefix_length)
        return torch.cat((prefix, self.visible), dim=1)

    def _near(self, window: int) -> Tensor | None:
        full = self.sight(0)
        prefix = torch.arange(self.prefix_length, device=self.positions.device)
        keys = torch.cat((prefix, self.positions))
        near = self.positions[:, None] - keys[None, :] < window
        return near if full is None else near & full


def _as_bias(sight: Tensor, dtype: torch.dtype) -> Tensor:
    return torch.zeros(sight.shape, dtype=dtype, device=sight.device).masked_fill_(~sight, -torch.inf)


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
    window = sliding_window or 0
    block.windows.append(window)
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    if softcap is None and s_aux is None:
        mask = block.additive(
            window, query.shape[1] // key.shape[1], torch.float64 if block.is_steady else query.dtype
        )
        fused = _fused_in_float64 if block.is_steady else _fused
        out = fused(query, key, value, mask, scale)
    else:
        inside = torch.float64 if block.is_steady else torch.float32
        out = _explicit(query, key, value, block.sight(window), scale, softcap, s_aux, inside)
    return out.transpose(1, 2).contiguous(), None


def _refuse_unknown(**inputs: Any) -> None:
    """Raise ValueError for a mask, a bias or a choice of keys that this attention would leave out."""
    for name, value in inputs.items():
        if isinstance(value, Tensor) and name not in _HARMLESS:
            raise ValueError(f"attention does not know {name} {tuple(value.shape)}")


def _fused(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, scale: float) -> Tensor:
    """torch's own kernel; query heads that share a key head are packed as extra rows of it."""
    _, heads, rows, size = query.shape
    packed = query.reshape(1, key.shape[1], heads // key.shape[1] * rows, size)
    out = scaled_dot_product_attention(packed, key, value, attn_mask=mask, scale=scale)
    return out.reshape(1, heads, rows, value.shape[3])


def _fused_in_float64(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, scale: float) -> Tensor:
    """The same, a few key heads at a time: float64 copies of all heads would not stay in the processor's cache."""
    share = query.shape[1] // key.shape[1]
    few = max(1, FLOAT64_VALUES // key[0, 0].numel())
    parts: list[Tensor] = []
    for head in range(0, key.shape[1], few):
        heads, shared = slice(head, head + few), slice(head * share, (head + few) * share)
        states = query[:, shared].double(), key[:, heads].double(), value[:, heads].double()
        parts.append(_fused(*states, mask, scale).to(query.dtype))
    return parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)


def _explicit(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    scale: float,
    softcap: float | None,
    sinks: Tensor | None,
    inside: torch.dtype,
) -> Tensor:
    """Attention written out, in this precision, for layers that cap their scores or send some weight to sinks."""
    _, heads, rows, size = query.shape
    grouped = query.to(inside).reshape(key.shape[1], -1, rows, size)  # [KV, H / KV, T, D]
    scores = grouped @ key[0].to(inside).transpose(1, 2)[:, None] * scale  # [KV, H / KV, T, L + T]
    if softcap is not None:
        scores = softcap * torch.tanh(scores / softcap)
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    weights = _softmax_with_sinks(scores, sinks)
    out = weights @ value[0].to(inside)[:, None]
    return out.reshape(1, heads, rows, value.shape[3]).to(query.dtype)


def _softmax_with_sinks(scores: Tensor, sinks: Tensor | None) -> Tensor:
    """Softmax over keys; a head's sink [H] takes its share and gives nothing."""
    if sinks is None:
        return scores.softmax(dim=-1)
    sink = sinks.to(scores.dtype).reshape(*scores.shape[:2], 1, 1).expand(*scores.shape[:3], 1)
    return torch.cat((scores, sink), dim=-1).softmax(dim=-1)[..., :-1]


def register() -> None:
    """Make the attention known to transformers by its name; safe to repeat."""
    AttentionInterface.register(NAME, attend_layer)
