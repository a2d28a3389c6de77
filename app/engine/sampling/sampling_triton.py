"""Draws the tokens of a step's rows on a GPU in one launch that reads the logits once. Needs triton.

The draws are those of `sampling.py`. The noise of most tokens is computed in float32; only tokens that may win
within its error get float64 logarithms. Top-k and top-p stay with torch: on an H200 its sorting takes 0.4 to 0.9 ms
a step, and a search for the lowest logit that passes, bit by bit, took 1.2 to 2 ms.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 2048
"""Tokens that one program draws from."""


@triton.jit
def _noise_bits(keyed):
    """Compute the 52 random bits of sums of token id and key: `_mix` in sampling.py."""
    word = keyed.to(tl.uint64) * 0x9E3779B97F4A7C15
    word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9
    word = (word ^ (word >> 27)) * 0x94D049BB133111EB
    return ((word ^ (word >> 31)) >> 12).to(tl.int64)


@triton.jit
def _rough_noise(bits):
    """Compute the Gumbel noise in float32. For numbers close to 1 it uses their exact difference to 1."""
    lacking = (4503599627370495 - bits).to(tl.float32) * 2.220446049250313e-16 + 1.1102230246251565e-16
    series = lacking * (1 + lacking * (0.5 + lacking * (0.33333334 + lacking * 0.25)))
    uniform = bits.to(tl.float32) * 2.220446049250313e-16 + 1.1102230246251565e-16
    return -tl.log(tl.where(lacking < 0.015, series, -tl.log(uniform)))


@triton.jit(do_not_specialize=["vocabulary", "temperature", "min_p"])
def draw_kernel(
    logits, keys, peaks, scores, ids, arrived, drawn, vocabulary, temperature, min_p,
    CHUNKS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Find a row's best token with noise among BLOCK tokens; the row's last program to finish finds the best."""
    row, chunk = tl.program_id(0), tl.program_id(1)
    token = chunk * BLOCK + tl.arange(0, BLOCK)
    passes = token < vocabulary
    logit = tl.load(logits + row.to(tl.int64) * vocabulary + token, mask=passes, other=float("-inf")).to(
        tl.float32
    )
    score = tl.div_rn(logit, temperature)
    if min_p > 0:
        passes = passes & (tl.exp(score - tl.div_rn(tl.load(peaks + row), temperature)) >= min_p)
    bits = _noise_bits(token.to(tl.int64) + tl.load(keys + row))
    rough = tl.where(passes, score + _rough_noise(bits), float("-inf"))
    top = tl.max(rough, 0)
    may_win = (rough >= top - (1e-3 + tl.abs(top) * 1e-6)) & (rough > float("-inf"))
    best, winner = tl.full((), float("-inf"), tl.float64), chunk * BLOCK
    while tl.sum(may_win.to(tl.int32), 0) > 0:
        candidate = tl.min(tl.where(may_win, token, 2147483647), 0)
        is_it = token == candidate
        uniform = (tl.sum(tl.where(is_it, bits, 0), 0).to(tl.float64) + 0.5) * 2.220446049250313e-16
        exact = tl.sum(tl.where(is_it, score, 0.0), 0).to(tl.float64) - tl.log(-tl.log(uniform))
        if exact > best:
            best, winner = exact, candidate
        may_win = may_win & (token != candidate)
    place = row * tl.num_programs(1) + chunk
    tl.store(scores + place, best)
    tl.store(ids + place, winner)
    if tl.atomic_add(arrived + row, 1) == tl.num_programs(1) - 1:
        every = tl.arange(0, CHUNKS)
        is_in, places = every < tl.num_programs(1), row * tl.num_programs(1) + every
        found = tl.load(scores + places, mask=is_in, other=float("-inf"), cache_modifier=".cg")
        winners = tl.load(ids + places, mask=is_in, other=2147483647, cache_modifier=".cg")
        tl.store(drawn + row, tl.min(tl.where(found == tl.max(found, 0), winners, 2147483647), 0))


def draw_on_gpu(logits: Tensor, keys: Tensor, temperature: float, min_p: float) -> Tensor:
    """Draw a token for each row of logits [R, vocab], given the key of its noise [R]: ids [R]."""
    logits, (rows, vocabulary) = logits.contiguous(), logits.shape
    chunks = -(-vocabulary // BLOCK)
    scores = torch.empty((rows, chunks), dtype=torch.float64, device=logits.device)
    ids = torch.empty((rows, chunks), dtype=torch.int32, device=logits.device)
    arrived = torch.zeros(rows, dtype=torch.int32, device=logits.device)
    drawn = torch.empty_like(arrived)
    peaks = logits.amax(dim=-1).float() if min_p > 0 else scores
    draw_kernel[(rows, chunks)](
        logits, keys, peaks, scores, ids, arrived, drawn, vocabulary, temperature, min_p,
        CHUNKS=triton.next_power_of_2(chunks), BLOCK=BLOCK, num_warps=8,
    )  # fmt: skip
    return drawn
