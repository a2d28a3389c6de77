"""Finds each row's likeliest tokens and draws its next token on a GPU, in two launches. Needs triton.

    scan_kernel     a program for BLOCK tokens: the best token of each GROUP, and the highest score with noise
    choose_kernel   a program for each row: its likeliest tokens, and the token that it draws

The kernels draw the same tokens as `sampling.py`. A token's rank is an integer, made of its score and then its id,
so that among equal scores the lowest id ranks first. Each filter keeps the tokens down to some rank. Without
top-k, the first candidate is the token with the highest noisy score (score plus noise). If the filters drop a
candidate, the next is the token with the highest noisy score among those that rank above this candidate. Noise is
computed in float32, and in float64 for tokens that could win within float32's error. Settings are read from the
device's memory, so that both launches can be recorded.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK, GROUP = tl.constexpr(2048), tl.constexpr(64)
"""Tokens that a program scans, and tokens of a group, of which the best token is stored."""
LIKELY, MOST = tl.constexpr(8), tl.constexpr(128)
"""MOST_LIKELY and MOST_TOP_K of sampling.py."""
_LOWEST = tl.constexpr(-(1 << 63))
_LAST = tl.constexpr((1 << 31) - 1)
_ERROR = tl.constexpr(3e-5)
"""Bound of the relative error of a sum of chances in float32."""


@triton.jit
def _rank(score, token, is_in):
    """Compute the rank of tokens by score, then by id; -2^63 if masked out."""
    bits = tl.where(score == 0.0, 0.0, score).to(tl.int32, bitcast=True)
    ordered = tl.where(bits < 0, bits ^ _LAST, bits).to(tl.int64)
    return tl.where(is_in, (ordered << 32) + (_LAST - token), _LOWEST)


@triton.jit
def _score(rank):
    ordered = (rank >> 32).to(tl.int32)
    return tl.where(ordered < 0, ordered ^ _LAST, ordered).to(tl.float32, bitcast=True)


@triton.jit
def _token(rank):
    """Return the token of a rank; 0 for the lowest rank, which no token has."""
    return tl.where(rank == _LOWEST, 0, _LAST - (rank & 0xFFFFFFFF)).to(tl.int32)


@triton.jit
def _loaded(logits, token, vocabulary, divisor):
    """Load the scores of these tokens, and their ranks."""
    is_in = token < vocabulary
    logit = tl.load(logits + token, mask=is_in, other=float("-inf")).to(tl.float32)
    score = tl.div_rn(logit, divisor)
    return score, _rank(score, token, is_in)


@triton.jit
def _noise_bits(keyed):
    """Hash sums of token id and key to 52 random bits, as `gumbel_of` in sampling.py does."""
    word = keyed.to(tl.uint64) * 0x9E3779B97F4A7C15
    word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9
    word = (word ^ (word >> 27)) * 0x94D049BB133111EB
    return ((word ^ (word >> 31)) >> 12).to(tl.int64)


@triton.jit
def _rough_noise(bits):
    """Compute the Gumbel noise in float32.

    float32 is imprecise for a uniform number near 1, so its -log is a series in the distance from 1."""
    lacking = (4503599627370495 - bits).to(tl.float32) * 2.220446049250313e-16 + 1.1102230246251565e-16
    series = lacking * (1 + lacking * (0.5 + lacking * (0.33333334 + lacking * 0.25)))
    uniform = bits.to(tl.float32) * 2.220446049250313e-16 + 1.1102230246251565e-16
    return -tl.log(tl.where(lacking < 0.015, series, -tl.log(uniform)))


@triton.jit
def _noise(bits):
    """Compute the Gumbel noise in float64."""
    uniform = (bits.to(tl.float64) + 0.5) * 2.220446049250313e-16
    return -tl.log(-tl.log(uniform))


@triton.jit
def _chance(score, peak):
    """Compute exp(score - peak): a token's chance, relative to the likeliest token's."""
    return tl.exp(score - tl.where(peak == float("-inf"), 0.0, peak))


@triton.jit(do_not_specialize=["vocabulary"], do_not_specialize_on_alignment=["logits", "keys", "settings"])
def scan_kernel(logits, keys, settings, groups, tops, peaks, masses, vocabulary):
    """Store the best rank of each group. If rows draw without top-k, also store for BLOCK tokens the highest score
    with noise, the highest score, and the sum of the chances."""
    row, chunk = tl.program_id(0), tl.program_id(1)
    temperature, top_k = tl.load(settings).to(tl.float32), tl.load(settings + 3)
    token = chunk * BLOCK + tl.arange(0, BLOCK // GROUP)[:, None] * GROUP + tl.arange(0, GROUP)[None, :]
    divisor = tl.where(temperature > 0, temperature, 1.0)
    score, rank = _loaded(logits + row.to(tl.int64) * vocabulary, token, vocabulary, divisor)
    place = row * tl.num_programs(1) + chunk
    tl.store(groups + place * (BLOCK // GROUP) + tl.arange(0, BLOCK // GROUP), tl.max(rank, 1))
    if (temperature > 0) & (top_k == 0):
        noisy = score + _rough_noise(_noise_bits(token.to(tl.int64) + tl.load(keys + row)))
        tl.store(tops + place, tl.max(tl.max(noisy, 1), 0))
        peak = tl.max(tl.max(score, 1), 0)
        tl.store(peaks + place, peak)
        tl.store(masses + place, tl.sum(tl.sum(_chance(score, peak), 1), 0))


@triton.jit
def _without(left, best, logits, vocabulary, divisor, GROUPS: tl.constexpr):
    """Return the groups' best ranks after removing `best`, the best rank of all."""
    group = _token(best) // GROUP
    _, rank = _loaded(logits, group * GROUP + tl.arange(0, GROUP), vocabulary, divisor)
    following = tl.max(tl.where(rank < best, rank, _LOWEST), 0)
    return tl.where(tl.arange(0, GROUPS) == group, following, left)


@triton.jit
def _drawn_from_list(likely, key, top_k, top_p, min_p):
    """Draw one of the first `top_k` ranks, which are sorted."""
    at, score = tl.arange(0, MOST), _score(likely)
    peak = tl.max(tl.where(at == 0, score, float("-inf")), 0)
    chance = tl.where(at < top_k, _chance(score.to(tl.float64), peak.to(tl.float64)), 0.0)
    total = tl.sum(chance, 0)
    chance = chance / tl.where(total == 0.0, 1.0, total)
    share = tl.where(top_p < 1, tl.cumsum(chance, 0) - chance, 0.0)
    is_kept = (at < top_k) & (share < top_p)
    is_kept = is_kept & (_chance(score, peak) >= min_p)
    noisy = score.to(tl.float64) + _noise(_noise_bits(_token(likely).to(tl.int64) + key))
    noisy = tl.where(is_kept, noisy, float("-inf"))
    place = tl.min(tl.where(is_kept & (noisy == tl.max(noisy, 0)), at, MOST), 0)
    return tl.sum(tl.where(at == tl.where(place < MOST, place, 0), likely, 0), 0)


@triton.jit
def _noisiest(tops, limit, floor, peak, logits, key, vocabulary, divisor, CHUNKS: tl.constexpr):
    """Return the rank of the token with the highest score with noise, among tokens that rank above `limit` and have
    at least the chance `floor`; -2^63 if there is none.

    `tops` are the highest scores with noise, in float32, that these tokens have in each BLOCK."""
    chunk, top = tl.arange(0, CHUNKS), tl.max(tops, 0)
    least = top - (1e-3 + tl.abs(top) * 1e-6)
    may_have = (tops >= least) & (tops > float("-inf"))
    best, winner = tl.full((), float("-inf"), tl.float64), tl.full((), _LOWEST, tl.int64)
    while tl.sum(may_have.to(tl.int32), 0) > 0:
        this = tl.min(tl.where(may_have, chunk, CHUNKS), 0)
        token = this * BLOCK + tl.arange(0, BLOCK)
        score, rank = _loaded(logits, token, vocabulary, divisor)
        bits = _noise_bits(token.to(tl.int64) + key)
        is_left = (rank > limit) & (_chance(score, peak) >= floor)
        may_win = is_left & (score + _rough_noise(bits) >= least)
        while tl.sum(may_win.to(tl.int32), 0) > 0:
            is_it = token == tl.min(tl.where(may_win, token, _LAST), 0)
            found = tl.max(tl.where(is_it, rank, _LOWEST), 0)
            exact = _score(found).to(tl.float64) + _noise(tl.sum(tl.where(is_it, bits, 0), 0))
            if exact > best:
                best, winner = exact, found
            may_win = may_win & (token != _token(found))
        may_have = may_have & (chunk != this)
    return winner


@triton.jit
def _is_kept(drawn, groups, logits, top_p, peak, vocabulary, divisor, chunks, GROUPS: tl.constexpr):
    """Return 1 if top-p keeps this rank, else 0. Adds the higher chances one by one, in float64."""
    at = tl.arange(0, GROUPS)
    total, best_score = tl.full((), 0.0, tl.float64), peak.to(tl.float64)
    for chunk in tl.range(0, chunks):
        score, _ = _loaded(logits, chunk * BLOCK + tl.arange(0, BLOCK), vocabulary, divisor)
        total += tl.sum(tl.exp(score.to(tl.float64) - best_score), 0)
    left = tl.load(groups + at, mask=at < chunks * (BLOCK // GROUP), other=_LOWEST)
    best, share = tl.max(left, 0), tl.full((), 0.0, tl.float64)
    while best > drawn:
        share += tl.exp(_score(best).to(tl.float64) - best_score) / total
        left = _without(left, best, logits, vocabulary, divisor, GROUPS)
        best = tl.max(left, 0)
    chance = tl.exp(_score(drawn).to(tl.float64) - best_score) / total
    return (share + chance - chance < top_p).to(tl.int32)


@triton.jit
def _drawn_from_all(
    first, logits, key, groups, tops, peaks, masses, top_p, min_p, vocabulary, divisor, chunks,
    GROUPS: tl.constexpr, CHUNKS: tl.constexpr,
):  # fmt: skip
    """Draw from all tokens; `first` is the best rank."""
    chunk, peak = tl.arange(0, CHUNKS), _score(first)
    is_in = chunk < chunks
    noisy = tl.load(tops + chunk, mask=is_in, other=float("-inf"))
    mass = tl.load(masses + chunk, mask=is_in, other=0.0)
    total = tl.sum(mass * _chance(tl.load(peaks + chunk, mask=is_in, other=float("-inf")), peak), 0)
    drawn, limit, floor, is_done = first, tl.full((), _LOWEST, tl.int64), min_p * 0, 0
    while is_done == 0:
        drawn = _noisiest(noisy, limit, floor, peak, logits, key, vocabulary, divisor, CHUNKS)
        drawn = tl.where(drawn == _LOWEST, first, drawn)
        is_done = ((drawn == first) | ((top_p >= 1) & (min_p == 0))).to(tl.int32)
        if is_done == 0:
            above, least = min_p * 0, _score(drawn)
            noisy = tl.full((CHUNKS,), float("-inf"), tl.float32)
            for this in tl.range(0, chunks):
                if tl.load(peaks + this) >= least:
                    token = this * BLOCK + tl.arange(0, BLOCK)
                    score, rank = _loaded(logits, token, vocabulary, divisor)
                    chance, is_above = _chance(score, peak), rank > drawn
                    above += tl.sum(tl.where(is_above, chance, 0.0), 0)
                    rough = score + _rough_noise(_noise_bits(token.to(tl.int64) + key))
                    best = tl.max(tl.where(is_above & (chance >= min_p), rough, float("-inf")), 0)
                    noisy = tl.where(chunk == this, best, noisy)
            share = above / total
            is_done = ((share < top_p) & (_chance(least, peak) >= min_p)).to(tl.int32)
            if (top_p < 1) & (tl.abs(share - top_p.to(tl.float32)) <= _ERROR):
                is_kept = _is_kept(drawn, groups, logits, top_p, peak, vocabulary, divisor, chunks, GROUPS)
                is_done = is_kept & (_chance(least, peak) >= min_p).to(tl.int32)
            limit, floor = drawn, min_p
    return drawn


@triton.jit(
    do_not_specialize=["vocabulary", "chunks"],
    do_not_specialize_on_alignment=["logits", "keys", "settings", "out"],
)
def choose_kernel(
    logits, keys, settings, groups, tops, peaks, masses, out, vocabulary, chunks,
    GROUPS: tl.constexpr, CHUNKS: tl.constexpr,
):  # fmt: skip
    """Write a row's likeliest logits, their ids, the likeliest id, and the drawn id."""
    row = tl.program_id(0)
    temperature, top_p = tl.load(settings).to(tl.float32), tl.load(settings + 1)
    min_p, top_k = tl.load(settings + 2).to(tl.float32), tl.load(settings + 3).to(tl.int32)
    divisor, key = tl.where(temperature > 0, temperature, 1.0), tl.load(keys + row)
    logits += row.to(tl.int64) * vocabulary
    groups += row * chunks * (BLOCK // GROUP)
    each, at = tl.arange(0, GROUPS), tl.arange(0, MOST)
    left = tl.load(groups + each, mask=each < chunks * (BLOCK // GROUP), other=_LOWEST)
    likely, first = tl.full((MOST,), _LOWEST, tl.int64), tl.max(left, 0)
    for place in tl.range(0, tl.maximum(top_k, LIKELY)):
        best = tl.max(left, 0)
        likely = tl.where(at == place, best, likely)
        left = _without(left, best, logits, vocabulary, divisor, GROUPS)
    drawn = first
    if (temperature > 0) & (top_k > 0):
        drawn = _drawn_from_list(likely, key, top_k, top_p, min_p)
    elif temperature > 0:
        drawn = _drawn_from_all(
            first, logits, key, groups, tops + row * chunks, peaks + row * chunks, masses + row * chunks,
            top_p, min_p, vocabulary, divisor, chunks, GROUPS, CHUNKS,
        )  # fmt: skip
    out += row * (2 * LIKELY + 2)
    is_likely, token = at < LIKELY, _token(likely)
    tl.store(out + at, tl.load(logits + token, mask=is_likely, other=0.0).to(tl.float32), mask=is_likely)
    tl.store(out + LIKELY + at, token.to(tl.float32), mask=is_likely)
    tl.store(out + 2 * LIKELY, _token(first).to(tl.float32))
    tl.store(out + 2 * LIKELY + 1, _token(drawn).to(tl.float32))


def choose_on_gpu(logits: Tensor, keys: Tensor, settings: Tensor, out: Tensor) -> None:
    """Write each row's LIKELY likeliest logits, their ids, the likeliest id and the drawn id to `out`.

    `keys` [R] are the keys of the rows' noise; `settings` are the temperature, top-p, min-p and top-k in float64.
    `out` is [R, 2 * LIKELY + 2]."""
    logits, (rows, vocabulary) = logits.contiguous(), logits.shape
    chunks = -(-vocabulary // BLOCK.value)
    groups = keys.new_empty((rows, chunks * (BLOCK.value // GROUP.value)))
    summaries = torch.empty((3, rows, chunks), dtype=torch.float32, device=logits.device)
    shared = (logits, keys, settings, groups, *summaries)
    scan_kernel[(rows, chunks)](*shared, vocabulary, num_warps=8)
    width = triton.next_power_of_2(groups.shape[1])
    choose_kernel[(rows,)](
        *shared, out, vocabulary, chunks,
        GROUPS=width, CHUNKS=triton.next_power_of_2(chunks), num_warps=16 if width <= 4096 else 8,
    )  # fmt: skip
