"""Sampling with keyed noise: the token at position p is a fixed function of (logits, settings, seed, p).

The logits are filtered (repetition penalty, temperature, top-k, top-p, min-p, in transformers' order). Then the
argmax of logits / T + Gumbel noise is taken, where the noise of token t at position p is a hash of (seed, p, t).
This is a draw from the softmax. It depends neither on the number of computed rows nor on drafts, so lookahead on
and off give the same text for the same seed. Sums are computed in float64, and among equal scores the lowest id
wins, so that a row draws the same token alone and among many rows. Only tokens that pass the filters need noise.

On the CPU a row's token is drawn when verification reaches the row. On a GPU each accepted token would then
wait for the device again, so the tokens of all rows are drawn at once, by our own kernels (`sampling_triton.py`) if
they pass a trial. Penalties and grammars depend on the accepted tokens, so with them a GPU's rows, too, are drawn
when verification reaches them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from math import log
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from app.engine.machine.device_faults import fault_found
from app.engine.machine.hardware import uploaded
from app.engine.machine.kernel_timing import Timer, gpu_seconds, slowness
from app.engine.sampling.penalties import Process, repetition_penalty
from app.values.messages import Sampling

Choose = Callable[[int, Sequence[int]], int]
"""(row, every token before it) -> the token that is sampled for it."""

MOST_LIKELY, MOST_TOP_K = 8, 128
"""How many likeliest tokens our kernels find, and the largest top-k with which they draw."""
SETTINGS = 4
"""The number of sampling settings that our kernels read: temperature, top-p, min-p and top-k, in float64."""
TRIED_ROWS = 16
"""Rows with which our kernels are tried and timed."""
_TRIED = (Sampling(0.8), Sampling(0.8, min_p=0.1), Sampling(0.8, 20, 0.95), Sampling(0.8, 0, 0.9))
TOPK_BLOCK, MIN_TOPK_BLOCKS = 256, 32
"""The size of the blocks of logits whose maxima `_topk` computes first, and the minimum number of blocks."""
VALUES = 1 << 22
"""How many logits are filtered and get noise at once; their intermediate values take about 100 MiB."""


@dataclass(frozen=True, slots=True)
class Choices:
    """The sampled token of each row of a step, and its likeliest tokens: ids and logits [R, K], best first."""

    choose: Choose
    ids: NDArray[np.int64]
    logits: NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Draws:
    """How the rows of a step are sampled, each at its position."""

    sampling: Sampling
    positions: tuple[int, ...]

    def inputs(self, vocabulary: int) -> NDArray[np.int64]:
        """Return the input of our kernels: the bits of SETTINGS values, and the keys of the rows' noise."""
        chosen = self.sampling
        top_k = chosen.top_k if chosen.top_k < vocabulary else 0
        settings = np.array((chosen.temperature, chosen.top_p, chosen.min_p, top_k), dtype=np.float64)
        return np.concatenate((settings.view(np.int64), _noise_keys(chosen.seed, self.positions)))

    def are_recordable(self, vocabulary: int) -> bool:
        """Return whether our kernels can draw with these settings."""
        is_few = self.sampling.top_k <= MOST_TOP_K or self.sampling.top_k >= vocabulary
        return is_few and vocabulary >= MOST_LIKELY and self.sampling.repetition_penalty == 1


BestTokens = Callable[[Tensor, int, Draws | None], Tensor]
"""The signature of `best_tokens`. A runner's method of this name may return the result of a recorded step."""


class Sampler(Protocol):
    """Chooses a reply's tokens: greedily, or by its temperature, filters, seed and grammar."""

    def __call__(self, logits: Tensor, likely: int = 1, positions: Sequence[int] = ()) -> Choices:
        """Sample the rows of one step's logits [R, vocab], and find the `likely` likeliest tokens of each row.

        `positions` [R] are the positions of the sampled tokens, for samplers that draw all rows at once."""


def best_tokens(logits: Tensor, count: int, draws: Draws | None = None) -> Tensor:
    """Find each row's `count` likeliest tokens. Returns [R, 2 * count + 1]: their logits, their ids, and argmax's
    id.

    With `draws` the drawn tokens are a further column. Our kernels may find more tokens than `count`. Ids are exact
    in float32, because vocabularies are smaller than 2**24."""
    if logits.is_cuda and count <= MOST_LIKELY:
        vocabulary = logits.shape[1]
        is_possible = vocabulary >= MOST_LIKELY if draws is None else draws.are_recordable(vocabulary)
        if is_possible and not kernel_fault(logits.device, logits.dtype, vocabulary):
            return best_by_kernels(logits, draws)
    found = _best_by_torch(logits, count)
    if draws is None:
        return found
    return torch.cat((found, draw_rows(logits, draws.positions, draws.sampling)[:, None].float()), dim=1)


def best_by_kernels(logits: Tensor, draws: Draws | None) -> Tensor:
    """Find MOST_LIKELY tokens as `best_tokens` does, by our kernels."""
    from app.engine.sampling.sampling_triton import choose_on_gpu

    rows, vocabulary = logits.shape
    inputs = uploaded((draws or Draws(Sampling(), (0,) * rows)).inputs(vocabulary), logits.device)
    found = torch.empty((rows, 2 * MOST_LIKELY + 2), dtype=torch.float32, device=logits.device)
    choose_on_gpu(logits, inputs[SETTINGS:], inputs[:SETTINGS].view(torch.float64), found)
    return found if draws else found[:, :-1]


def _best_by_torch(logits: Tensor, count: int) -> Tensor:
    count = min(count, logits.shape[-1])
    if not logits.is_cpu:
        firsts = logits.argmax(dim=-1, keepdim=True)
        values, ids = (logits.gather(1, firsts), firsts) if count == 1 else _topk(logits, count)
    else:
        values, ids = logits.max(dim=-1, keepdim=True) if count == 1 else _topk(logits, count)
        firsts = ids[:, :1]
        # Reading the logits takes time on a CPU, so only rows with equal best logits are read again.
        if count > 1 and len(ties := (values[:, 0] == values[:, 1]).nonzero()[:, 0]):
            firsts = firsts.index_copy(0, ties, logits[ties].argmax(dim=-1, keepdim=True))
    return torch.cat((values.float(), ids.float(), firsts.float()), dim=1)


def make_sampler(
    sampling: Sampling, device: str = "cpu", best: BestTokens = best_tokens, processes: Sequence[Process] = ()
) -> Sampler:
    """Make a reply's sampler for logits on this device. `processes` change a row's logits, one after the other.
    They may keep counts from row to row, so they belong to one reply."""
    changes = (*processes, *repetition_penalty(sampling))
    if sampling.temperature == 0 and not changes:
        return partial(_greedy, best=best)
    if device.startswith("cuda") and not changes:
        return partial(_drawn_at_once, sampling=sampling, best=best)
    sampler = partial(_drawn_in_turn, sampling=sampling, changes=changes)
    if not device.startswith("mps"):
        return sampler
    # Noise is drawn in float64, which an Apple GPU does not have.
    return lambda logits, likely=1, positions=(): sampler(logits.cpu(), likely, positions)


def likeliest(logits: Tensor, count: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Return the ids and the values [R, K] of each row's `count` largest logits, in one copy from the device.

    Among equal best logits the first id is the lowest, as argmax's is; topk does not promise that."""
    return _on_host(best_tokens(logits, count), count)[:2]


def _greedy(logits: Tensor, likely: int = 1, positions: Sequence[int] = (), *, best: BestTokens) -> Choices:
    del positions
    ids, values, sampled = _on_host(best(logits, likely, None), likely)
    return Choices(lambda row, _history: sampled[row], ids, values)


def _drawn_at_once(
    logits: Tensor, likely: int = 1, positions: Sequence[int] = (), *, sampling: Sampling, best: BestTokens
) -> Choices:
    if len(positions) != len(logits):
        raise ValueError(f"each row needs its position, not {len(positions)} for {len(logits)} rows")
    ids, values, sampled = _on_host(best(logits, likely, Draws(sampling, tuple(positions))), likely)

    def choose(row: int, history: Sequence[int]) -> int:
        is_drawn = len(history) == positions[row]
        return sampled[row] if is_drawn else _drawn(logits[row], history, sampling)

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
        return _drawn(scores, history, sampling)

    return Choices(choose, *likeliest(logits, likely))


def _drawn(logits: Tensor, history: Sequence[int], sampling: Sampling) -> int:
    if not logits.is_cuda or not sampling.temperature:
        return draw(logits, history, sampling)
    draws = Draws(replace(sampling, repetition_penalty=1.0), (len(history),))
    return int(best_tokens(logits[None], 1, draws)[0, -1])


def _on_host(found: Tensor, count: int) -> tuple[NDArray[np.int64], NDArray[np.float32], list[int]]:
    """Copy a result of `best_tokens` to the host: ids and logits [R, count], and the last column's tokens [R]."""
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
    """Compute topk; for a large vocabulary on a CPU, in a third to a seventh of the time of torch's topk.

    A row's largest logits are in the blocks with the largest maxima, or after the last whole block."""
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
    """Draw the token at position len(history) from its logits [vocab], to which penalties were applied."""
    if sampling.temperature == 0:
        return int(logits.float().argmax())
    ids, scores = survivors(logits.float() / sampling.temperature, sampling)
    return int(ids[(scores.double() + gumbel(sampling.seed, len(history), ids)).argmax()])


def draw_rows(logits: Tensor, positions: Sequence[int], sampling: Sampling, values: int = VALUES) -> Tensor:
    """Draw a token for each row of logits [R, vocab] at its position. Filters about `values` logits at once."""
    keys = uploaded(_noise_keys(sampling.seed, positions), logits.device)
    rows_at_once = max(1, values // logits.shape[-1])
    parts = zip(torch.split(logits, rows_at_once), torch.split(keys, rows_at_once), strict=True)
    return torch.cat([draw_by_keys(some, key, sampling) for some, key in parts])


def draw_by_keys(logits: Tensor, keys: Tensor, sampling: Sampling) -> Tensor:
    """Draw a token for each of a few rows, given the keys of their noise [R]. The noise is freed at the end, so
    that the next rows can use its memory."""
    ids, scores, kept = _filter(logits.float() / sampling.temperature, sampling)
    noisy = (scores if kept is None else torch.where(kept, scores, -torch.inf)).double()
    if kept is None or sampling.top_k:
        noisy += gumbel_of(ids + keys[:, None])
    else:  # few tokens are left; finding them costs less than two float64 logarithms for the whole vocabulary
        rows, places = kept.nonzero(as_tuple=True)
        noisy[rows, places] += gumbel_of(ids.expand_as(scores)[rows, places] + keys[rows])
    best = noisy.argmax(dim=-1, keepdim=True)
    return ids.expand(len(scores), -1).gather(1, best)[:, 0]


@cache
def kernel_fault(device: torch.device, dtype: torch.dtype, vocabulary: int) -> str:
    """Try our kernels with logits of this size; return why they are not used, or "". Caches the result.

    Raises errors that prove nothing, such as full memory; the next call then tries the kernels again."""
    return fault_found(partial(_fault_of_kernels, device, dtype, vocabulary))


def _fault_of_kernels(
    device: torch.device, dtype: torch.dtype, vocabulary: int, timer: Timer = gpu_seconds
) -> str:
    """Compare our kernels' tokens with torch's, and with logits in `dtype` also the times. Logits in float32 are
    tried, too, because penalties make such logits."""
    made = torch.randn((TRIED_ROWS, vocabulary), generator=torch.Generator().manual_seed(0)).mul(3)
    for kind in dict.fromkeys((dtype, torch.float32)):
        logits = made.to(device, kind)
        for sampling in _TRIED:
            draws = Draws(sampling, tuple(range(TRIED_ROWS)))
            found, drawn = best_by_kernels(logits, draws), draw_rows(logits, draws.positions, sampling)
            if found[:, -1].tolist() != drawn.tolist():
                return "the kernels draw other tokens"
            if not torch.equal(found[:, :MOST_LIKELY], _best_by_torch(logits, MOST_LIKELY)[:, :MOST_LIKELY]):
                return "the kernels find other likeliest tokens"
            if kind == dtype:
                ours = timer(partial(best_by_kernels, logits, draws))
                torchs = timer(partial(_best_by_torch, logits, MOST_LIKELY))
                torchs += timer(partial(draw_rows, logits, draws.positions, sampling))
                if slow := slowness(ours, torchs):
                    return slow
    return ""


def survivors(scores: Tensor, sampling: Sampling) -> tuple[Tensor, Tensor]:
    """Return ids and scores [K] of a row's tokens that pass the filters; with top-k or top-p, best first."""
    ids, found, kept = _filter(scores[None], sampling)
    if kept is None:
        return ids[0], found[0]
    places = kept[0].nonzero()[:, 0]
    return ids[0][places], found[0][places]


def _filter(scores: Tensor, sampling: Sampling) -> tuple[Tensor, Tensor, Tensor | None]:
    """Apply top-k, top-p and min-p to rows [R, vocab].

    Returns ids [R or 1, K], scores [R, K], and which scores pass [R, K]: None if all do."""
    kept: Tensor | None = None
    if 0 < sampling.top_k < scores.shape[1]:
        ids = _largest(scores, sampling.top_k)
        scores = scores.gather(1, ids)
    elif sampling.top_p < 1:
        scores, ids = scores.sort(dim=-1, descending=True, stable=True)
    else:
        ids = torch.arange(scores.shape[1], device=scores.device)[None]
    if sampling.top_p < 1:
        # Only the sum before a token is compared, so the token that crosses top_p is kept. The sum is in float64,
        # so that all devices agree about a token at the border.
        chances = scores.double().softmax(dim=-1)
        kept = chances.cumsum(dim=-1) - chances < sampling.top_p
    if sampling.min_p > 0:
        chances = (scores if kept is None else torch.where(kept, scores, -torch.inf)).softmax(dim=-1)
        is_likely = chances >= sampling.min_p * chances.amax(-1, keepdim=True)
        kept = is_likely if kept is None else kept & is_likely
    return ids, scores, kept


def _largest(scores: Tensor, count: int) -> Tensor:
    """Find the ids [R, count] of the largest scores, best first, and among equal scores the lowest id first."""
    if len(scores) == 1 and scores.is_cpu:  # on a CPU the integer keys below take up to 80 times as long
        row = scores[0]
        values, ids = row.topk(count + 1)
        if values[count] == values[count - 1]:  # topk may return any of several equal scores
            ids = (row >= values[count]).nonzero()[:, 0]
        else:
            ids = ids[:count].sort().values
        return ids[row[ids].sort(descending=True, stable=True).indices[:count]][None]
    last = scores.shape[1] - 1
    bits = (scores + 0.0).view(torch.int32)  # adding 0 turns -0 into 0
    ordered = torch.where(bits < 0, bits ^ 0x7FFFFFFF, bits).long()  # in the same order as the floats
    keys = (ordered << 32) + (last - torch.arange(last + 1, device=scores.device))
    found: Tensor = last - (keys.topk(count, dim=-1).values & 0xFFFFFFFF)
    return found


def gumbel(seed: int, position: int, ids: Tensor) -> Tensor:
    """Compute the Gumbel noise [K] of tokens `ids` [K] at this position in float64."""
    return gumbel_of(ids + noise_key(seed, position))


def _noise_keys(seed: int, positions: Sequence[int]) -> NDArray[np.int64]:
    return np.array([noise_key(seed, position) for position in positions], dtype=np.int64)


def noise_key(seed: int, position: int) -> int:
    """Compute the key of a position's noise, a signed 64-bit integer that is added to token ids."""
    return _signed(_finalised((_finalised(seed + _GOLDEN) ^ position) + _GOLDEN))


def gumbel_of(keyed: Tensor) -> Tensor:
    """Compute the Gumbel noise in float64 for sums of token id and key."""
    bits = keyed * _signed(_GOLDEN)
    bits = (bits ^ _shifted(bits, 30)) * _signed(_FIRST)
    bits = (bits ^ _shifted(bits, 27)) * _signed(_SECOND)
    # 52 bits plus a half are never 0 or 1, for which a logarithm is infinite.
    uniform = _shifted(bits ^ _shifted(bits, 31), 12).double().add(0.5) * 2.0**-52
    return -torch.log(-torch.log(uniform))


def noise_of(key: int, token: int) -> float:
    """Compute one token's noise as `gumbel` does, except for the last bits; faster for few tokens."""
    return -log(-log((_finalised((token + key) * _GOLDEN) >> 12) * 2.0**-52 + 2.0**-53))


# SplitMix64's finaliser is written twice: for Python's integers, and for tensors, whose int64 products overflow as
# the algorithm requires (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014).
_GOLDEN, _FIRST, _SECOND = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
_WORD = 2**64 - 1


def _finalised(value: int) -> int:
    value &= _WORD
    value = (value ^ value >> 30) * _FIRST & _WORD
    value = (value ^ value >> 27) * _SECOND & _WORD
    return value ^ value >> 31


def _shifted(values: Tensor, bits: int) -> Tensor:
    """Shift right logically: torch's shift is arithmetic for int64."""
    shifted: Tensor = (values >> bits) & (2 ** (64 - bits) - 1)
    return shifted


def _signed(word: int) -> int:
    return word - 2**64 if word >= 2**63 else word
