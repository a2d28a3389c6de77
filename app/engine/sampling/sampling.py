"""Sampling with keyed noise: the token at position p is a fixed function of (logits, seed, p).

The logits are filtered (repetition penalty, temperature, top-k, top-p, min-p, in transformers' order), then the
argmax of logits / T + Gumbel noise is taken, where the noise of token t at position p is a hash of (seed, p,
t). That is a draw from the softmax, and it does not depend on how many rows were computed or what was drafted:
lookahead on and off give the same text for the same seed. Sums are taken in float64 and ties are broken by the
lowest id, so that a row draws the same token alone and among many. Only tokens that survive the filters need
noise.

On the CPU a row's token is drawn when verification reaches it. On a GPU each accepted token would then wait for the
device again, so all rows are drawn at once, needed or not, and the drawn tokens are copied together with the
likeliest ones. Without top-k and top-p, our own kernel draws them (`sampling_triton.py`) if it passes a trial. A
penalty or a grammar depends on the tokens accepted before, so with one of them rows are drawn in turn on a GPU,
too.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from math import log
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from app.engine.machine.device_faults import fault_found
from app.engine.machine.hardware import uploaded
from app.engine.sampling.logits_processing import Process, repetition_penalty
from app.values.messages import Sampling

Choose = Callable[[int, Sequence[int]], int]
"""(row, every token before it) -> the token that is sampled for it."""
BestTokens = Callable[[Tensor, int], Tensor]
"""(logits [R, vocab], count) -> what `best_tokens` returns, for `count` tokens or more. A recorded step has
computed it already."""

TOPK_BLOCK, MIN_TOPK_BLOCKS = 256, 32
"""Size of the blocks of logits whose maxima are taken first, and the fewest blocks with which this is faster."""
VALUES = 1 << 22
"""Logits that are filtered and get noise at once, which takes some 100 MiB of intermediate values."""


@dataclass(frozen=True, slots=True)
class Choices:
    """The sampled token of each row of a step, and its likeliest tokens: ids and logits [R, K], best first."""

    choose: Choose
    ids: NDArray[np.int64]
    logits: NDArray[np.float32]


class Sampler(Protocol):
    """A reply's way to choose tokens: greedy, or by its temperature, filters, seed and grammar."""

    def __call__(self, logits: Tensor, likely: int = 1, positions: Sequence[int] = ()) -> Choices:
        """Sample the rows of one step's logits [R, vocab], and find the `likely` likeliest tokens of each row.

        `positions` [R] are the positions of the sampled tokens, for samplers that draw all rows at once."""


def best_tokens(logits: Tensor, count: int) -> Tensor:
    """Find each row's `count` likeliest tokens: [R, 2 * count + 1] are their logits, their ids, and argmax's id.

    Ids are exact in float32, vocabularies being smaller than 2**24."""
    if not logits.is_cpu:
        return recordable_best_tokens(logits, count)
    # On a CPU reading the logits costs time, so they are read once more only in rows with equal best logits.
    count = min(count, logits.shape[-1])
    values, ids = logits.max(dim=-1, keepdim=True) if count == 1 else _topk(logits, count)
    firsts = ids[:, :1]
    if count > 1 and len(ties := (values[:, 0] == values[:, 1]).nonzero()[:, 0]):
        firsts = firsts.index_copy(0, ties, logits[ties].argmax(dim=-1, keepdim=True))
    return torch.cat((values.float(), ids.float(), firsts.float()), dim=1)


def recordable_best_tokens(logits: Tensor, count: int) -> Tensor:
    """Find the same as `best_tokens` without reading values on the host, so that a CUDA graph can record it."""
    firsts = logits.argmax(dim=-1, keepdim=True)
    if count == 1:
        ids, values = firsts, logits.gather(1, firsts)
    else:
        values, ids = _topk(logits, min(count, logits.shape[-1]))
    return torch.cat((values.float(), ids.float(), firsts.float()), dim=1)


def make_sampler(
    sampling: Sampling, device: str = "cpu", best: BestTokens = best_tokens, processes: Sequence[Process] = ()
) -> Sampler:
    """Make the sampler of one reply for logits on this device ("cpu", "cuda:0", ...).

    `processes` change a row's logits, one after the other; they may keep counts from row to row."""
    changes = (*processes, *repetition_penalty(sampling))
    if sampling.temperature == 0 and not changes:
        return partial(_greedy, best=best)
    if device.startswith("cuda") and not changes:
        return partial(_drawn_at_once, sampling=sampling, best=best)
    sampler = partial(_drawn_in_turn, sampling=sampling, changes=changes)
    # Noise is drawn in float64, which an Apple GPU does not have.
    return partial(_drawn_on_host, sampler=sampler) if device.startswith("mps") else sampler


def likeliest(logits: Tensor, count: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Return the ids and the values [R, K] of each row's `count` largest logits, in one copy from the device.

    The first id is always argmax's: the lowest id among equal logits, which topk does not promise."""
    ids, values, _ = _on_host(best_tokens(logits, count), count)
    return ids, values


def _greedy(logits: Tensor, likely: int = 1, positions: Sequence[int] = (), *, best: BestTokens) -> Choices:
    del positions
    ids, values, sampled = _on_host(best(logits, likely), likely)
    return Choices(lambda row, _history: sampled[row], ids, values)


def _drawn_at_once(
    logits: Tensor, likely: int = 1, positions: Sequence[int] = (), *, sampling: Sampling, best: BestTokens
) -> Choices:
    if len(positions) != len(logits):
        raise ValueError(f"each row needs its position, not {len(positions)} for {len(logits)} rows")
    drawn = draw_rows(logits, positions, sampling)[:, None].float()
    ids, values, sampled = _on_host(torch.cat((best(logits, likely), drawn), dim=1), likely)

    def choose(row: int, history: Sequence[int]) -> int:
        if len(history) == positions[row]:
            return sampled[row]
        return int(draw_rows(logits[row : row + 1], [len(history)], sampling))

    return Choices(choose, ids, values)


def _drawn_in_turn(
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


def _drawn_on_host(
    logits: Tensor, likely: int = 1, positions: Sequence[int] = (), *, sampler: Sampler
) -> Choices:
    return sampler(logits.cpu(), likely, positions)


def _on_host(found: Tensor, count: int) -> tuple[NDArray[np.int64], NDArray[np.float32], list[int]]:
    """Copy what `best_tokens` found to the host: ids and logits [R, count], and the last column's tokens [R]."""
    numbers = found.cpu().numpy()
    width = (numbers.shape[1] - 1) // 2  # rounding down ignores the column of drawn tokens, if there is one
    tokens = numbers[:, width:].astype(np.int64)
    ids, lowest = tokens[:, :width], tokens[:, width]
    for row in np.flatnonzero(ids[:, 0] != lowest):
        rest = ids[row][ids[row] != lowest[row]][: width - 1]
        ids[row, 0], ids[row, 1:] = lowest[row], rest
    count = min(count, width)
    return ids[:, :count], numbers[:, :count], tokens[:, -1].tolist()


def _topk(logits: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Compute topk; on a CPU torch's takes three to seven times as long for a large vocabulary.

    A row's largest logits are in the blocks whose maxima are largest, or after the last whole block."""
    blocks = logits.shape[-1] // TOPK_BLOCK
    if blocks < max(count, MIN_TOPK_BLOCKS) or not logits.is_cpu:
        return logits.topk(count, dim=-1)
    end, split = count * TOPK_BLOCK, blocks * TOPK_BLOCK
    whole = logits[:, :split].reshape(len(logits), blocks, TOPK_BLOCK)
    best = whole.amax(dim=-1).topk(count, dim=-1).indices
    inside = whole.gather(1, best[..., None].expand(-1, -1, TOPK_BLOCK)).flatten(1)
    values, places = torch.cat((inside, logits[:, split:]), dim=1).topk(count, dim=-1)
    starts = best.gather(1, (places // TOPK_BLOCK).clamp(max=count - 1)) * TOPK_BLOCK
    return values, torch.where(places < end, starts + places % TOPK_BLOCK, places - end + split)


def draw(logits: Tensor, history: Sequence[int], sampling: Sampling) -> int:
    """Draw the token at position len(history) from its logits [vocab], after any penalties."""
    if sampling.temperature == 0:
        return int(logits.float().argmax())
    ids, scores = survivors(logits.float() / sampling.temperature, sampling)
    return int(ids[(scores.double() + gumbel(sampling.seed, len(history), ids)).argmax()])


def draw_rows(logits: Tensor, positions: Sequence[int], sampling: Sampling, values: int = VALUES) -> Tensor:
    """Draw a token for each row of logits [R, vocab] at its position, at most `values` logits at once."""
    noise_keys = np.array([noise_key(sampling.seed, position) for position in positions], dtype=np.int64)
    keys = uploaded(noise_keys, logits.device)
    is_sorted = sampling.top_k > 0 or sampling.top_p < 1
    if logits.is_cuda and not is_sorted and not drawing_fault(logits.device):
        from app.engine.sampling.sampling_triton import draw_on_gpu

        return draw_on_gpu(logits, keys, sampling.temperature, sampling.min_p)
    rows_at_once = max(1, values // logits.shape[-1])
    parts = zip(torch.split(logits, rows_at_once), torch.split(keys, rows_at_once), strict=True)
    return torch.cat([_draw_some(rows, part, sampling) for rows, part in parts])


@cache
def drawing_fault(device: torch.device) -> str:
    """Try our kernel for drawing on a GPU against torch's operations; return what is wrong with it, or ""."""
    return fault_found(partial(_other_draws, device))


def _other_draws(device: torch.device) -> str:
    from app.engine.sampling.sampling_triton import draw_on_gpu

    logits = (
        torch.randn((8, 5000), generator=torch.Generator().manual_seed(0)).mul(3).to(device, torch.float16)
    )
    keys = torch.arange(8, device=device)
    for sampling in (Sampling(0.8), Sampling(0.8, min_p=0.1)):
        found = draw_on_gpu(logits, keys, sampling.temperature, sampling.min_p)
        if found.tolist() != _draw_some(logits, keys, sampling).tolist():
            return "the kernel draws other tokens"
    return ""


def _draw_some(logits: Tensor, keys: Tensor, sampling: Sampling) -> Tensor:
    ids, scores, kept = _filter(logits.float() / sampling.temperature, sampling)
    noisy = (scores if kept is None else torch.where(kept, scores, -torch.inf)).double()
    if kept is None or sampling.top_k:
        noisy += gumbel_of(ids + keys[:, None])
    else:  # few tokens are left: finding them costs less than two float64 logarithms for the whole vocabulary
        rows, places = kept.nonzero(as_tuple=True)
        noisy[rows, places] += gumbel_of(ids.expand_as(scores)[rows, places] + keys[rows])
    best = noisy.argmax(dim=-1, keepdim=True)
    return ids.expand(len(scores), -1).gather(1, best)[:, 0]


def survivors(scores: Tensor, sampling: Sampling) -> tuple[Tensor, Tensor]:
    """Return the ids and scores [K] of one row that pass top-k, top-p and min-p.

    They are sorted, best first, if top-k or top-p is used."""
    ids, found, kept = _filter(scores[None], sampling)
    if kept is None:
        return ids[0], found[0]
    places = kept[0].nonzero()[:, 0]
    return ids[0][places], found[0][places]


def _filter(scores: Tensor, sampling: Sampling) -> tuple[Tensor, Tensor, Tensor | None]:
    """Apply top-k, top-p and min-p to rows [R, vocab].

    Returns ids [R or 1, K], scores [R, K], and which of them pass: None if all do."""
    kept: Tensor | None = None
    if 0 < sampling.top_k < scores.shape[1]:
        ids = _largest(scores, sampling.top_k)
        scores = scores.gather(1, ids)
    elif sampling.top_p < 1:
        scores, ids = scores.sort(dim=-1, descending=True, stable=True)
    else:
        ids = torch.arange(scores.shape[1], device=scores.device)[None]
    if sampling.top_p < 1:
        # The token that crosses top_p stays, because only the sum before it is compared. The sum is in float64, so
        # that all devices agree on a token at the border.
        chances = scores.double().softmax(dim=-1)
        kept = chances.cumsum(dim=-1) - chances < sampling.top_p
    if sampling.min_p > 0:
        chances = (scores if kept is None else torch.where(kept, scores, -torch.inf)).softmax(dim=-1)
        is_likely = chances >= sampling.min_p * chances.amax(-1, keepdim=True)
        kept = is_likely if kept is None else kept & is_likely
    return ids, scores, kept


def _largest(scores: Tensor, count: int) -> Tensor:
    """Find the ids [R, count] of the largest scores, best first; unlike topk, lowest ids first among equals."""
    if len(scores) == 1 and scores.is_cpu:  # the integer way below takes a CPU up to 80 times as long
        row = scores[0]
        values, ids = row.topk(count + 1)
        if values[count] == values[count - 1]:  # topk may take any of equal scores at the border
            ids = (row >= values[count]).nonzero()[:, 0]
        else:
            ids = ids[:count].sort().values
        return ids[row[ids].sort(descending=True, stable=True).indices[:count]][None]
    last = scores.shape[1] - 1
    bits = (scores + 0.0).view(torch.int32)  # there is no -0 in a sum with 0
    ordered = torch.where(bits < 0, bits ^ 0x7FFFFFFF, bits).long()  # in the same order as the floats
    keys = (ordered << 32) + (last - torch.arange(last + 1, device=scores.device))
    found: Tensor = last - (keys.topk(count, dim=-1).values & 0xFFFFFFFF)
    return found


def gumbel(seed: int, position: int, ids: Tensor) -> Tensor:
    """Compute the Gumbel noise [K] of tokens `ids` [K] at this position in float64, equal on every device."""
    return gumbel_of(ids + noise_key(seed, position))


def noise_key(seed: int, position: int) -> int:
    """Compute the key of a position's noise, a signed 64-bit integer that is added to token ids."""
    return _signed(_mix_int(_mix_int(seed) ^ position))


def gumbel_of(keyed: Tensor) -> Tensor:
    """Compute the Gumbel noise in float64 for sums of token id and key."""
    bits = _mix(keyed)
    # 52 bits plus a half: never 0 and never 1, for which a logarithm is infinite.
    uniform = _shifted(bits, 12).double().add(0.5) * 2.0**-52
    return -torch.log(-torch.log(uniform))


def noise_of(key: int, token: int) -> float:
    """Compute one token's noise as `gumbel` does, except for the last bits; faster for few tokens."""
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
    """Shift right logically: torch's shift is arithmetic for int64."""
    shifted: Tensor = (values >> bits) & (2 ** (64 - bits) - 1)
    return shifted


def _signed(word: int) -> int:
    return word - 2**64 if word >= 2**63 else word
