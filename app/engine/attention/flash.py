"""The `flash` backend: the flash-attn package over the prefix, the block densely, merged by log-sum-exp.

The prefix needs no mask, so the stock package does it. Both parts tell the log of their weights' sum, and together
they are the whole:

    weights' log    prefix 2.0, block 1.0       both ln(e^2 + e^1) = 2.313
    shares                                      prefix e^(2 - 2.313) = 0.731, block 0.269

Where the prefix ends, the sum is cut: a row's bits depend on what is drafted. Texts that must be the same with and
without drafts take another backend; so do layers with a window, and blocks without a prefix.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from app.engine.attention.signature import Attend, BlockView, LayerCache, Scoring

SPLITS = 8
"""Parts of the prefix: left to itself, the package chooses them by the number of rows."""

OverCache = Callable[[Tensor, Tensor, Tensor, Tensor, float, float], tuple[Tensor, Tensor]]
"""(query [1, T, H, D], keys and values [1, n, KV, D], how many of n count: int32 [1], scale, softcap or 0.0)
-> out [1, T, H, D] and the log of the weights' sum [1, H, T]."""


@dataclass(frozen=True, slots=True)
class FlashAttention:
    """Attention over the prefix by the package's kernel; what that cannot do goes to `otherwise`."""

    over_cache: OverCache
    otherwise: Attend

    def __call__(self, query: Tensor, cache: LayerCache, view: BlockView, scoring: Scoring) -> Tensor:
        """Query [1, H, T, D] to [1, T, H, DV]."""
        if scoring.window or view.prefix_length == 0:
            return self.otherwise(query, cache, view, scoring)
        prefix, prefix_log = self.over_cache(
            query.transpose(1, 2),
            cache.keys.transpose(1, 2),
            cache.values.transpose(1, 2),
            view.lengths(),
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
    """The block's own rows in float32: out [H, T, DV], and the log of the weights' sum [H, T]."""
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
    """The package's own function. It is imported here, for it needs a CUDA device to be imported at all."""
    from flash_attn import flash_attn_with_kvcache

    def over_cache(
        query: Tensor, keys: Tensor, values: Tensor, lengths: Tensor, scale: float, softcap: float
    ) -> tuple[Tensor, Tensor]:
        out, log = flash_attn_with_kvcache(
            query,
            keys,
            values,
            cache_seqlens=lengths,
            softmax_scale=scale,
            softcap=softcap,
            num_splits=SPLITS,
            return_softmax_lse=True,
        )
        return out, log

    return over_cache
