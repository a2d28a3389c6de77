"""Our matrix product: states [rows, K] times weight [N, K], transposed, with every sum in a fixed order.

    K   0          span        2 span      ...      K          weight, BLOCK_N rows of it
        | part 0   | part 1    | part 2    | ...    |          one program for each part
        `-- + -----'---- + ----'---- + ----'-- + bias          added in this order, by whoever comes last

A program multiplies BLOCK_M rows by BLOCK_N rows of the weight, BLOCK_K columns at a time, from its part's
beginning to its end. Where a weight has too few rows to keep the device busy, several programs share them, each
with a part of K: they write their sums down and take a ticket; the last one adds all sums up, first to last, its
own among them. So the order is the same whoever was last.

What a row's sum looks like is told by N, K and the device: never by how many rows there are, or by which place of
the tile it has. Tiles of another BLOCK_M are allowed where the compiler makes the same matrix instruction of them
(`tiles.py`): then a row's products are added by the same instructions in the same order.
"""

import triton
import triton.language as tl


@triton.jit
def _sum_of_part(
    states, weight, start, stop, is_row, is_column,
    EVEN: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """[BLOCK_M, BLOCK_N] over the columns from `start` up to `stop`; pointers stand at each row's column 0."""
    total = tl.full([BLOCK_M, BLOCK_N], 0.0, tl.float32)
    for begin in tl.range(start, stop, BLOCK_K):
        at = begin + tl.arange(0, BLOCK_K)
        if EVEN:
            some = tl.load(states[:, None] + at[None, :], mask=is_row[:, None], other=0.0)
            other = tl.load(weight[:, None] + at[None, :], mask=is_column[:, None], other=0.0)
        else:
            is_in = (at < stop)[None, :]
            some = tl.load(states[:, None] + at[None, :], mask=is_row[:, None] & is_in, other=0.0)
            other = tl.load(weight[:, None] + at[None, :], mask=is_column[:, None] & is_in, other=0.0)
        total = tl.dot(some, tl.trans(other), total, input_precision="ieee")
    return total


@triton.jit(do_not_specialize=["rows"])
def product_kernel(
    states, weight, bias, out, sums, tickets,
    rows, outs, ins, state_row, span,
    HAS_BIAS: tl.constexpr, PARTS: tl.constexpr, EVEN: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """To out [rows, outs]. `sums` are a tile in float32 for each program, `tickets` 0 before and after; `ins` is K.

    Programs that share rows of the weight stand beside each other, so that these are read from memory once."""
    block, tile, part = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    row = block * BLOCK_M + tl.arange(0, BLOCK_M)
    column = tile * BLOCK_N + tl.arange(0, BLOCK_N)
    is_row, is_column = row < rows, column < outs
    total = _sum_of_part(
        states + row.to(tl.int64) * state_row, weight + column.to(tl.int64) * ins,
        part * span, tl.minimum((part + 1) * span, ins), is_row, is_column,
        EVEN, BLOCK_M, BLOCK_N, BLOCK_K,
    )  # fmt: skip
    is_last = True
    if PARTS > 1:
        # One tile of sums behind the other, part by part.
        size, inside = (
            BLOCK_M * BLOCK_N,
            tl.arange(0, BLOCK_M)[:, None] * BLOCK_N + tl.arange(0, BLOCK_N)[None, :],
        )
        tiles = tl.num_programs(0) * tl.num_programs(1)
        number = block * tl.num_programs(1) + tile
        first = sums + number.to(tl.int64) * size
        stride = tiles.to(tl.int64) * size
        tl.store(first + part * stride + inside, total, mask=is_row[:, None])
        # All of the program's sums are written before its ticket is taken, and read behind the last one's.
        tl.debug_barrier()
        ticket = tl.atomic_add(tickets + number, 1, sem="acq_rel")
        tl.debug_barrier()
        is_last = ticket == PARTS - 1
    if is_last:
        if PARTS > 1:
            total = tl.load(first + inside, mask=is_row[:, None], other=0.0, cache_modifier=".cg")
            for other in tl.range(1, PARTS):
                total += tl.load(
                    first + other * stride + inside, mask=is_row[:, None], other=0.0, cache_modifier=".cg"
                )
            tl.store(tickets + number, 0)
        if HAS_BIAS:
            total += tl.load(bias + column, mask=is_column, other=0.0).to(tl.float32)[None, :]
        place = row.to(tl.int64)[:, None] * outs + column[None, :]
        tl.store(out + place, total.to(out.dtype.element_ty), mask=is_row[:, None] & is_column[None, :])
