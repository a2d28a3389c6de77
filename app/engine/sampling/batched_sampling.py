"""Sampling for logits on a card: all rows of a step at once, and one copy to the host.

Row by row (`sampling.py`) each accepted token would wait for the device again. Here every row draws, whether it is
needed or not: a row's position is known before, and with it its noise. The drawn tokens are copied together with
the likeliest tokens. Draws are those of `sampling.draw`: the same noise after the same filters. Sums are taken in
float64 and ties are broken by the lowest id, so that a row draws the same token among few rows and among many.
Where top-p or min-p filter a whole vocabulary, only the tokens that are left get noise: the host waits for their
number.

A penalty and a grammar depend on the tokens accepted before, so there the rows are drawn one by one.
"""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from app.engine.machine.hardware import uploaded
from app.engine.sampling.sampling import (
    Choices,
    Process,
    Sampler,
    draw,
    gumbel_of,
    lowest_first,
    make_sampler,
    noise_key,
)
from app.values.messages import Sampling

VALUES = 1 << 22
"""Logits that are filtered and given noise at once: some 100 MiB of numbers in between."""


BestTokens = Callable[[Tensor, int], Tensor]
"""(logits [R, vocab], count) -> as `best_tokens`, of at least so many: a recorded step has found them already."""


def best_tokens(logits: Tensor, count: int) -> Tensor:
    """Of each row the logits of its `count` likeliest tokens, their ids, and argmax's id: [R, 2 * count + 1].

    Ids are exact in float32, vocabularies being smaller than 2**24."""
    firsts = logits.argmax(dim=-1, keepdim=True)
    if count == 1:
        ids, values = firsts, logits.gather(1, firsts)
    else:
        values, ids = logits.topk(min(count, logits.shape[-1]), dim=-1)
    return torch.cat((values.float(), ids.float(), firsts.float()), dim=1)


def sampler_for(
    sampling: Sampling, device: str, best: BestTokens = best_tokens, processes: Sequence[Process] = ()
) -> Sampler:
    """The sampler that suits logits on this device ("cpu", "cuda:0", ...), and what changes them."""
    if device.startswith("cuda") and not processes:
        return make_batched_sampler(sampling, best)
    sampler = make_sampler(sampling, processes)
    return partial(_on_host, sampler=sampler) if device.startswith("mps") else sampler


def _on_host(logits: Tensor, likely: int = 1, positions: Sequence[int] = (), *, sampler: Sampler) -> Choices:
    """Noise is drawn in float64, which an Apple GPU does not have."""
    return sampler(logits.cpu(), likely, positions)


def make_batched_sampler(sampling: Sampling, best: BestTokens = best_tokens) -> Sampler:
    """A sampler that draws for all rows at once where it can."""
    if sampling.repetition_penalty != 1:
        return make_sampler(sampling)
    if sampling.temperature == 0:
        return partial(_greedy, best=best)
    return partial(_drawn, sampling=sampling, best=best)


def _greedy(logits: Tensor, likely: int = 1, positions: Sequence[int] = (), *, best: BestTokens) -> Choices:
    del positions
    ids, values, sampled = _on_the_host(best(logits, likely), likely)
    return Choices(lambda row, _history: sampled[row], ids, values)


def _drawn(
    logits: Tensor, likely: int = 1, positions: Sequence[int] = (), *, sampling: Sampling, best: BestTokens
) -> Choices:
    if len(positions) != len(logits):
        raise ValueError(f"each row needs its position, got {len(positions)} for {len(logits)} rows")
    drawn = draw_rows(logits, positions, sampling)[:, None].float()
    ids, values, sampled = _on_the_host(torch.cat((best(logits, likely), drawn), dim=1), likely)

    def choose(row: int, history: Sequence[int]) -> int:
        if len(history) == positions[row]:
            return sampled[row]
        return draw(logits[row], history, sampling)

    return Choices(choose, ids, values)


def _on_the_host(found: Tensor, count: int) -> tuple[NDArray[np.int64], NDArray[np.float32], list[int]]:
    """As `sampling.likeliest`, by one copy of what `best_tokens` found; and the last column's tokens [R]."""
    numbers = found.cpu().numpy()
    width = (numbers.shape[1] - 1) // 2  # a drawn token's column makes no difference
    tokens = numbers[:, width:].astype(np.int64)
    ids, lowest = tokens[:, :width], tokens[:, width]
    for row in np.flatnonzero(ids[:, 0] != lowest):
        lowest_first(ids[row], int(lowest[row]))
    return ids[:, :count], numbers[:, :count], tokens[:, -1].tolist()


def draw_rows(logits: Tensor, positions: Sequence[int], sampling: Sampling, values: int = VALUES) -> Tensor:
    """The token [R] that each row of logits [R, vocab] draws at its position; `values` limits the memory."""
    keys = np.array([noise_key(sampling.seed, position) for position in positions], dtype=np.int64)
    rows_at_once = max(1, values // logits.shape[-1])
    parts = zip(
        torch.split(logits, rows_at_once),
        torch.split(uploaded(keys, logits.device), rows_at_once),
        strict=True,
    )
    return torch.cat([_draw_some(rows, part, sampling) for rows, part in parts])


def _draw_some(logits: Tensor, keys: Tensor, sampling: Sampling) -> Tensor:
    ids, scores = _survivors(logits.float() / sampling.temperature, sampling)
    noisy = scores.double()
    if sampling.top_k or (sampling.top_p == 1 and not sampling.min_p):
        noisy += gumbel_of(ids + keys[:, None])
    else:  # few of a vocabulary are left, and two logarithms in float64 for each of it cost more than to count them
        rows, places = (scores > -torch.inf).nonzero(as_tuple=True)
        noisy[rows, places] += gumbel_of(ids.expand_as(scores)[rows, places] + keys[rows])
    best = noisy.argmax(dim=-1, keepdim=True)
    return ids.expand(len(scores), -1).gather(1, best)[:, 0]


def _survivors(scores: Tensor, sampling: Sampling) -> tuple[Tensor, Tensor]:
    """Ids [R or 1, K] and scores [R, K], -inf where a filter takes a token out."""
    if 0 < sampling.top_k < scores.shape[1]:
        ids = _best(scores, sampling.top_k)
        scores = scores.gather(1, ids)
    elif sampling.top_p < 1:
        scores, ids = scores.sort(dim=-1, descending=True, stable=True)
    else:
        ids = torch.arange(scores.shape[1], device=scores.device)[None]
    if sampling.top_p < 1:
        chances = scores.double().softmax(dim=-1)
        scores = scores.masked_fill(chances.cumsum(dim=-1) - chances >= sampling.top_p, -torch.inf)
    if sampling.min_p > 0:
        chances = scores.softmax(dim=-1)
        scores = scores.masked_fill(chances < sampling.min_p * chances.amax(-1, keepdim=True), -torch.inf)
    return ids, scores


def _best(scores: Tensor, count: int) -> Tensor:
    """The ids [R, count] of the largest scores, best first; of equal ones the lowest ids, unlike topk."""
    last = scores.shape[1] - 1
    bits = (scores + 0.0).view(torch.int32)  # there is no -0 in a sum with 0
    ordered = torch.where(bits < 0, bits ^ 0x7FFFFFFF, bits).long()  # as the floats are ordered
    keys = (ordered << 32) + (last - torch.arange(last + 1, device=scores.device))
    found: Tensor = last - (keys.topk(count, dim=-1).values & 0xFFFFFFFF)
    return found
