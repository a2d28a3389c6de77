"""The `sdpa` backend: torch's own kernel with a dense mask. It is the reference and runs on every device.

A rounded sum depends on the order of its terms, and therefore on the slot of each key. `attend_batch_invariant`
adds in float64, where these differences are so small that rounding to half precision removes them.
"""

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from app.engine.attention.signature import BlockView, LayerCache, Scoring

FLOAT64_VALUES = {"cpu": 1 << 17}
"""How many numbers of the keys are converted to float64 at once (1 MiB). Other devices than CPUs convert all keys
at once, because each part would need further kernel launches."""


def attend(query: Tensor, cache: LayerCache, view: BlockView, scoring: Scoring) -> Tensor:
    """Attend with torch's fastest suitable kernel; with a soft cap or sinks, step by step in float32."""
    return _attend(query, cache, view, scoring, query.dtype, torch.float32)


def attend_batch_invariant(query: Tensor, cache: LayerCache, view: BlockView, scoring: Scoring) -> Tensor:
    """Attend in float64, so that half-precision results depend neither on the block's rows nor on key slots."""
    return _attend(query, cache, view, scoring, torch.float64, torch.float64)


def _attend(
    query: Tensor,
    cache: LayerCache,
    view: BlockView,
    scoring: Scoring,
    fused: torch.dtype,
    explicit: torch.dtype,
) -> Tensor:
    """Attend with torch's kernel in the type `fused`, or step by step in the type `explicit`."""
    key, value = cache
    if key.shape[2] > (end := view.prefix_length + len(view.block)):  # slots after the block are not read
        key, value = key[:, :, :end], value[:, :, :end]
    if scoring.softcap is not None or scoring.sinks is not None:
        out = _explicit(query, key, value, view.sight(scoring.window), scoring, explicit)
    else:
        mask = view.additive(scoring.window, query.shape[1] // key.shape[1], fused)
        attend = _fused if fused == query.dtype else _fused_in_float64
        out = attend(query, key, value, mask, scoring.scale)
    return out.transpose(1, 2).contiguous()


def _fused(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, scale: float) -> Tensor:
    """Call torch's kernel; query heads that share a key head are passed as extra rows of that head."""
    _, heads, rows, size = query.shape
    packed = query.reshape(1, key.shape[1], heads // key.shape[1] * rows, size)
    out = scaled_dot_product_attention(packed, key, value, attn_mask=mask, scale=scale)
    return out.reshape(1, heads, rows, value.shape[3])


def _fused_in_float64(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, scale: float) -> Tensor:
    """Call torch's kernel in float64. On a CPU, a call gets only as many key heads as FLOAT64_VALUES
    allows, so that their keys fit the cache."""
    share = query.shape[1] // key.shape[1]
    at_once = max(1, FLOAT64_VALUES.get(key.device.type, key.numel()) // key[0, 0].numel())
    parts: list[Tensor] = []
    for head in range(0, key.shape[1], at_once):
        heads, shared = slice(head, head + at_once), slice(head * share, (head + at_once) * share)
        states = query[:, shared].double(), key[:, heads].double(), value[:, heads].double()
        parts.append(_fused(*states, mask, scale).to(query.dtype))
    return parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)


def _explicit(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, scoring: Scoring, inside: torch.dtype
) -> Tensor:
    """Compute attention step by step with the type `inside`, for layers with a soft cap or sinks."""
    _, heads, rows, size = query.shape
    grouped = query.to(inside).reshape(key.shape[1], -1, rows, size)  # [KV, H / KV, T, D]
    scores = grouped @ key[0].to(inside).transpose(1, 2)[:, None] * scoring.scale  # [KV, H / KV, T, L + T]
    if scoring.softcap is not None:
        scores = scoring.softcap * torch.tanh(scores / scoring.softcap)
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    if scoring.sinks is None:
        weights = scores.softmax(dim=-1)
    else:
        sink = scoring.sinks.to(scores.dtype).reshape(*scores.shape[:2], 1, 1).expand(*scores.shape[:3], 1)
        weights = torch.cat((scores, sink), dim=-1).softmax(dim=-1)[..., :-1]
    out = weights @ value[0].to(inside)[:, None]
    return out.reshape(1, heads, rows, value.shape[3]).to(query.dtype)
