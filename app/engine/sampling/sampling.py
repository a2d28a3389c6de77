"""Sampling with keyed noise: the token at position p is a fixed function of (logits, seed, p).

The logits are filtered (repetition penalty, temperature, top-k, top-p, min-p, in transformers' order), then the
argmax of logits / T + Gumbel noise is taken, where the noise of token t at position p is a hash of (seed, p, t).
That is a draw from the softmax, and it does not depend on how many rows were computed or what was drafted:
lookahead on and off give the same text for the same seed. Only tokens that survive the filters need their noise.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import log
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from app.engine.block.token_counts import TokenCounts, penalised
from app.engine.machine.hardware import uploaded
from app.values.messages import Sampling

Process = Callable[[Tensor, Sequence[int]], Tensor]
"""(logits [vocab] in float32, every token before them) -> logits [vocab]."""
Choose = Callable[[int, Sequence[int]], int]
"""(row, every token before it) -> the token that the model says there."""

TOPK_BLOCK, MIN_TOPK_BLOCKS = 256, 32
"""Logits whose maximum is taken together, and the blocks from which on that is faster."""


@dataclass(frozen=True, slots=True)
class Choices:
    """The sampled token of each row of a step, and its likeliest tokens: ids and logits [R, K], best first."""

    choose: Choose
    ids: NDArray[np.int64]
    logits: NDArray[np.float32]


class Sampler(Protocol):
    """Samples tokens from logits."""

    def __call__(self, logits: Tensor, likely: int = 1, positions: Sequence[int] = ()) -> Choices:
        """Logits [R, vocab] of one step -> the sampled tokens, and so many of the likeliest ones.

        `positions` [R] are where these tokens stand: samplers that draw for all rows at once need them."""


def make_sampler(sampling: Sampling, processes: Sequence[Process] = ()) -> Sampler:
    """Greedy, or keyed draws, by the settings; `processes` change the logits of each row before, in turn.

    For one reply: processes may go on from row to row."""
    changes = (*processes, *repetition_penalty(sampling))
    if sampling.temperature == 0 and not changes:
        return _greedy
    return partial(_keyed, sampling=sampling, changes=changes)


def repetition_penalty(sampling: Sampling) -> list[Process]:
    """The one that is asked for."""
    if sampling.repetition_penalty == 1:
        return []
    counts, penalty = TokenCounts(), sampling.repetition_penalty
    return [lambda logits, history: penalised(logits, counts.before(history, logits.device), penalty)]


def _greedy(logits: Tensor, likely: int = 1, positions: Sequence[int] = ()) -> Choices:
    del positions
    ids, values = likeliest(logits, likely)
    sampled: list[int] = ids[:, 0].tolist()
    return Choices(lambda row, _history: sampled[row], ids, values)


def _keyed(
    logits: Tensor,
    likely: int = 1,
    positions: Sequence[int] = (),
    *,
    sampling: Sampling,
    changes: Sequence[Process],
) -> Choices:
    del positions

    def choose(row: int, history: Sequence[int]) -> int:
        scores = logits[row].float()
        for change in changes:
            scores = change(scores, history)
        return draw(scores, history, sampling)

    return Choices(choose, *likeliest(logits, likely))


def likeliest(logits: Tensor, count: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """The `count` largest logits of each row and their ids [R, K], in one copy from the device, two with ties.

    The first one is argmax's, whatever `count` is: of equal logits the lowest id, which topk does not promise."""
    if count == 1:
        values, ids = logits.max(dim=-1, keepdim=True)
    else:
        values, ids = _topk(logits, min(count, logits.shape[-1]))
    # Ids are exact in float32, vocabularies being smaller than 2**24.
    found = torch.stack((ids.float(), values.float())).cpu().numpy()
    order, best = found[0].astype(np.int64), found[1]
    if best.shape[1] > 1:
        ties = np.flatnonzero(best[:, 0] == best[:, 1])
        lowest = logits[uploaded(ties, logits.device)].argmax(dim=-1).tolist() if len(ties) else []
        for row, first in zip(ties, lowest, strict=True):
            lowest_first(order[row], first)
    return order, best


def _topk(logits: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """As torch's topk, which reads a large vocabulary on a CPU three to seven times as long.

    A row's largest logits are in the blocks whose maxima are largest, or behind the last whole block."""
    blocks = logits.shape[-1] // TOPK_BLOCK
    if blocks < max(count, MIN_TOPK_BLOCKS) or logits.device.type != "cpu":
        return logits.topk(count, dim=-1)
    end, split = count * TOPK_BLOCK, blocks * TOPK_BLOCK
    whole = logits[:, :split].reshape(len(logits), blocks, TOPK_BLOCK)
    best = whole.amax(dim=-1).topk(count, dim=-1).indices
    inside = whole.gather(1, best[..., None].expand(-1, -1, TOPK_BLOCK)).flatten(1)
    values, places = torch.cat((inside, logits[:, split:]), dim=1).topk(count, dim=-1)
    starts = best.gather(1, (places // TOPK_BLOCK).clamp(max=count - 1)) * TOPK_BLOCK
    return values, torch.where(places < end, starts + places % TOPK_BLOCK, places - end + split)


def lowest_first(ids: NDArray[np.int64], lowest: int) -> None:
    """Move an id to the front; if it is not there the last one goes."""
    rest = ids[ids != lowest][: len(ids) - 1]
    ids[0], ids[1:] = lowest, rest


def draw(logits: Tensor, history: Sequence[int], sampling: Sampling) -> int:
    """The token at position len(history), given its logits [vocab], which a penalty has changed already."""
    scores = logits.float()
    if sampling.temperature == 0:
        return int(scores.argmax())
    ids, kept = survivors(scores / sampling.temperature, sampling)
    noise = gumbel(sampling.seed, len(history), ids)
    return int(ids[(kept.double() + noise).argmax()])


def survivors(scores: Tensor, sampling: Sampling) -> tuple[Tensor, Tensor]:
    """Ids [K] and scores [K], best first where a filter had to sort, that top-k, top-p and min-p leave over."""
    if 0 < sampling.top_k < len(scores):
        scores, ids = scores.topk(sampling.top_k)
    elif sampling.top_p < 1:
        scores, ids = scores.sort(descending=True, stable=True)
    else:
        ids = torch.arange(len(scores), device=scores.device)
    if sampling.top_p < 1:
        # The token that crosses top_p stays: what counts is the sum before it. In float64, as for many rows at once
        # (batched_sampling.py), so that a token at the border is kept on every device or on none.
        chances = scores.double().softmax(dim=-1)
        kept = (chances.cumsum(dim=-1) - chances < sampling.top_p).nonzero()[:, 0]
        scores, ids = scores[kept], ids[kept]
    if sampling.min_p > 0:
        chances = scores.softmax(dim=-1)
        kept = (chances >= sampling.min_p * chances.max()).nonzero()[:, 0]
        scores, ids = scores[kept], ids[kept]
    return ids, scores


def gumbel(seed: int, position: int, ids: Tensor) -> Tensor:
    """Gumbel noise [K] in float64 for tokens `ids` [K] at this position, the same on every device."""
    return gumbel_of(ids + noise_key(seed, position))


def noise_key(seed: int, position: int) -> int:
    """The key of a position's noise, to be added to token ids: 64 bits with a sign."""
    return _signed(_mix_int(_mix_int(seed) ^ position))


def gumbel_of(keyed: Tensor) -> Tensor:
    """Gumbel noise in float64 for token ids that a key was added to."""
    bits = _mix(keyed)
    # 52 bits and a half: never 0 and never 1, where the logarithms have no value.
    uniform = _shifted(bits, 12).double().add(0.5) * 2.0**-52
    return -torch.log(-torch.log(uniform))


def noise_of(key: int, token: int) -> float:
    """The noise of one token as `gumbel` has it, up to the last bits: faster for few tokens."""
    value = (token + key) * _GOLDEN & _WORD
    value = (value ^ value >> 30) * _FIRST & _WORD
    value = (value ^ value >> 27) * _SECOND & _WORD
    return -log(-log(((value ^ value >> 31) >> 12) * 2.0**-52 + 2.0**-53))


# The finaliser of SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014),
# once for Python's integers and once for tensors, whose int64 products wrap as needed.
_GOLDEN, _FIRST, _SECOND = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
_WORD = 2**64 - 1


def _mix_int(value: int) -> int:
    value = (value + _GOLDEN) & _WORD
    value = ((value ^ (value >> 30)) * _FIRST) & _WORD
    value = ((value ^ (value >> 27)) * _SECOND) & _WORD
    return value ^ (value >> 31)


def _mix(values: Tensor) -> Tensor:
    values = values * _signed(_GOLDEN)
    values = (values ^ _shifted(values, 30)) * _signed(_FIRST)
    values = (values ^ _shifted(values, 27)) * _signed(_SECOND)
    return values ^ _shifted(values, 31)


def _shifted(values: Tensor, bits: int) -> Tensor:
    """A logical right shift: torch's is arithmetic for int64."""
    shifted: Tensor = (values >> bits) & (2 ** (64 - bits) - 1)
    return shifted


def _signed(word: int) -> int:
    return word - 2**64 if word >= 2**63 else word
