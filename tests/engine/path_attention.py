"""Attention that reads who sees whom from the table of paths alone, as our kernels do, in torch's operations."""

import torch
from torch import Tensor

from app.engine.attention import BlockView, LayerCache, Scoring
from app.engine.attention.backend_choice import Attention
from app.engine.attention.paths import BORDER, POSITION, SLOTS


def attend_by_paths(query: Tensor, cache: LayerCache, view: BlockView, scoring: Scoring) -> Tensor:
    """Query [1, H, T, D] to [1, T, H, DV], over all slots, of which most may hold anything."""
    sight = _sight(view.path_table(), cache.keys.shape[2], scoring.window)
    is_read = sight.any(dim=0)[:, None]
    keys, values = (torch.where(is_read, states[0], 0.0) for states in cache)
    _, heads, rows, size = query.shape
    grouped = query.reshape(keys.shape[0], -1, rows, size)
    scores = grouped @ keys.transpose(1, 2)[:, None] * scoring.scale
    if scoring.softcap is not None:
        scores = scoring.softcap * torch.tanh(scores / scoring.softcap)
    scores = torch.where(sight, scores, -torch.inf)
    if scoring.sinks is not None:
        sinks = scoring.sinks.to(scores.dtype).reshape(*scores.shape[:2], 1, 1).expand(*scores.shape[:3], 1)
        scores = torch.cat((scores, sinks), dim=-1)
    weights = scores.softmax(dim=-1)[..., : keys.shape[1]]
    out = weights @ values[:, None]
    return out.reshape(heads, rows, -1).transpose(0, 1)[None].contiguous()


def _sight(table: Tensor, count: int, window: int) -> Tensor:
    """[T, count]: which slots each row reads."""
    table = table.long()
    position, border, slots = table[:, POSITION, None], table[:, BORDER, None], table[:, SLOTS:]
    width = slots.shape[1]
    at = torch.arange(count, device=table.device)
    places = position + 1 - width + torch.arange(width, device=table.device)
    before = at < border
    if window:
        before = before & (position - at < window)
        slots = torch.where(position - places < window, slots, -1)
    slots = torch.where(places >= border, slots, -1)
    return before | (slots[:, :, None] == at).any(dim=1)


BY_PATHS = Attention("triton", attend_by_paths, attend_by_paths)
