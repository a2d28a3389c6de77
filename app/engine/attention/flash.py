"""The `flash` backend: attends over the prefix with the flash-attn package and over the block densely.

The prefix needs no mask, so the unmodified package can attend to it. Each of the two attentions also returns the
log-sum-exp of its scores, from which their outputs are merged. The sum is split at the end of the prefix, so a
row's rounding depends on how many tokens before it were drafted. Another backend is used for texts that must be
identical with and without drafts, for layers with a window, and for blocks without a prefix.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from app.engine.attention.signature import Attend, BlockView, LayerCache, Scoring

SPLITS = 8
"""Number of parts of the prefix. It is fixed, because the package's own choice depends on the rows."""

OverCache = Callable[[Tensor, Tensor, Tensor, Tensor, float, float], tuple[Tensor, Tensor]]
"""(query [1, T, H, D], keys and values [1, n, KV, D], how many of the n slots are used: int32 [1], scale,
softcap or 0.0) -> out [1, T, H, D] and the log-sum-exp of the scores [1, H, T]."""


@dataclass(frozen=True, slots=True)
class FlashAttention:
    """Attention with the package's kernel. With a window, or without a prefix, `otherwise` attends instead."""

    over_cache: OverCache
    otherwise: Attend

    def __call__(self, query: Tensor, cache: LayerCache, view: BlockView, scoring: Scoring) -> Tensor:
        if scoring.window or view.prefix_length == 0:
            return self.otherwise(query, cache, view, scoring)
        prefix, prefix_log = self.over_cache(
            query.transpose(1, 2),
            cache.keys.transpose(1, 2),
            cache.values.transpose(1, 2),
            view.lengths,
            scoring.scale,
            scoring.softcap or 0.0,
        )
        block, block_log = _over_block(query, cache, view, scoring)
        whole = torch.logaddexp(prefix_log[0], block_log)  # [H, T]
        if scoring.sinks is not None:
            whole = torch.logaddexp(whole, scoring.sinks.float()[:, None])
        shares = ((log - whole).exp()[..., None] for log in (prefix_log[0], block_log))
        out = sum(
            part * share
            for part, share in zip((prefix[0].transpose(0, 1).float(), block), shares, strict=True)
        )
        return torch.as_tensor(out).to(query.dtype).transpose(0, 1)[None].contiguous()


def _over_block(query: Tensor, cache: LayerCache, view: BlockView, scoring: Scoring) -> tuple[Tensor, Tensor]:
    """Attend to the block's own rows in float32; return [H, T, DV] and the log-sum-exp of the scores [H, T]."""
    _, heads, rows, size = query.shape
    own = slice(view.prefix_length, view.prefix_length + rows)
    keys, values = cache.keys[0, :, None, own].float(), cache.values[0, :, None, own].float()
    grouped = query.float().reshape(len(keys), -1, rows, size)  # [KV, H / KV, T, D]
    scores = grouped @ keys.transpose(2, 3) * scoring.scale
    if scoring.softcap is not None:
        scores = scoring.softcap * torch.tanh(scores / scoring.softcap)
    sight = view.sight(0)
    if sight is not None:
        scores = scores.masked_fill(~sight[:, own], -torch.inf)
    out = scores.softmax(dim=-1) @ values
    return out.reshape(heads, rows, -1), scores.logsumexp(dim=-1).reshape(heads, rows)


def flash_over_cache() -> OverCache:
    """Import the package and wrap its function. The import is here, because the package needs a CUDA device."""
    from flash_attn import flash_attn_with_kvcache

    return lambda query, keys, values, lengths, scale, softcap: flash_attn_with_kvcache(
        query,
        keys,
        values,
        cache_seqlens=lengths,
        softmax_scale=scale,
        softcap=softcap,
        num_splits=SPLITS,
        return_softmax_lse=True,
    )
