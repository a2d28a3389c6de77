"""The kernels of fused layers: memory is read once, and numbers are rounded where transformers rounds them.

Between two matrix products torch launches a kernel for each operation, and each writes its result to memory in the
model's type, or in float32. Here one program does them all for a row, in float32, and rounds to the type where a
result would have been written in it:

    RMSNorm, as Llama has it    to float32 . square . mean . + eps . rsqrt . times . round . times weight . round
    torch                       8 kernels
    here                        1 program a row

Products and sums are rounded one by one (nothing is fused to a multiply-add), so that what is not a sum over a row
has torch's bits. The sum of squares is added in an order that depends on the row's size alone: one program
has the whole row, and neither the other rows nor their number reach it.
"""

import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def _rounded(values, like, BY_HAND: tl.constexpr):
    """Float32 values as the type that `like` points to has them, as float32 again.

    Triton's interpreter cuts bfloat16 off; by hand it is rounded to nearest, to even where two are as near."""
    if BY_HAND and like.dtype.element_ty == tl.bfloat16:
        bits = values.to(tl.uint32, bitcast=True)
        nearest = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16) << 16
        return tl.where(values == values, nearest.to(tl.float32, bitcast=True), values)
    return values.to(like.dtype.element_ty).to(tl.float32)


@triton.jit
def norm_kernel(
    states, others, weight, total, out, factor, eps,
    HAS_OTHERS: tl.constexpr, ROUNDS_FIRST: tl.constexpr, ADDS_ONE: tl.constexpr,
    BY_HAND: tl.constexpr, SIZE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """RMSNorm of one row of SIZE; of the sum of two, which goes to `total`. `factor` is 1 / SIZE."""
    row = tl.program_id(0).to(tl.int64) * SIZE
    at = tl.arange(0, BLOCK)
    is_in = at < SIZE
    values = tl.load(states + row + at, mask=is_in, other=0.0).to(tl.float32)
    if HAS_OTHERS:
        values += tl.load(others + row + at, mask=is_in, other=0.0).to(tl.float32)
        values = _rounded(values, out, BY_HAND)
        tl.store(total + row + at, values.to(out.dtype.element_ty), mask=is_in)
    values *= tl.rsqrt(tl.sum(values * values, axis=0) * factor + eps)
    if ROUNDS_FIRST:
        values = _rounded(values, out, BY_HAND)
    weights = tl.load(weight + at, mask=is_in, other=0.0).to(tl.float32)
    if ADDS_ONE:
        weights += 1.0
    values = _rounded(values * weights, out, BY_HAND)
    tl.store(out + row + at, values.to(out.dtype.element_ty), mask=is_in)


@triton.jit
def _exponential(values, BY_HAND: tl.constexpr):
    """As torch has it on a card: triton's own is faster, and rounds otherwise."""
    if BY_HAND:
        return tl.exp(values)
    return libdevice.exp(values)


@triton.jit
def gate_kernel(
    gate, up, out, gate_row, up_row,
    ACTIVATION: tl.constexpr, BY_HAND: tl.constexpr, SIZE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """A piece of one row: the bent gate, rounded, times up."""
    row = tl.program_id(0).to(tl.int64)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    is_in = at < SIZE
    activated = tl.load(gate + row * gate_row + at, mask=is_in, other=0.0).to(tl.float32)
    if ACTIVATION == "silu":
        activated = tl.math.div_rn(activated, 1.0 + _exponential(-activated, BY_HAND))
    else:
        # 0.5 x (1 + tanh y) is x * sigmoid(2 y), which loses no digits where tanh comes near -1.
        twice = 1.5957691216057308 * (activated + 0.044715 * activated * activated * activated)
        activated = tl.math.div_rn(activated, 1.0 + _exponential(-twice, BY_HAND))
    product = _rounded(activated, out, BY_HAND) * tl.load(up + row * up_row + at, mask=is_in, other=0.0).to(
        tl.float32
    )
    product = _rounded(product, out, BY_HAND)
    tl.store(out + row * SIZE + at, product.to(out.dtype.element_ty), mask=is_in)


@triton.jit
def _rotate_heads(
    states, out, first, heads, head_stride, low_cos, high_cos, low_sin, high_sin,
    BY_HAND: tl.constexpr, SIZE: tl.constexpr, WIDTH: tl.constexpr,
    HEADS: tl.constexpr, BLOCK: tl.constexpr, REST: tl.constexpr,
):  # fmt: skip
    """Some heads of one row: `states` and `out` [heads, SIZE] point to its first head."""
    half: tl.constexpr = WIDTH // 2
    head = (first + tl.arange(0, HEADS))[:, None]
    at = tl.arange(0, BLOCK)[None, :]
    is_in = (head < heads) & (at < half)
    low = tl.load(states + head * head_stride + at, mask=is_in, other=0.0).to(tl.float32)
    high = tl.load(states + head * head_stride + half + at, mask=is_in, other=0.0).to(tl.float32)
    new_low = _rounded(low * low_cos, out, BY_HAND) - _rounded(high * low_sin, out, BY_HAND)
    new_high = _rounded(high * high_cos, out, BY_HAND) + _rounded(low * high_sin, out, BY_HAND)
    kind = out.dtype.element_ty
    tl.store(out + head * SIZE + at, _rounded(new_low, out, BY_HAND).to(kind), mask=is_in)
    tl.store(out + head * SIZE + half + at, _rounded(new_high, out, BY_HAND).to(kind), mask=is_in)
    if WIDTH < SIZE:
        behind = WIDTH + tl.arange(0, REST)[None, :]
        is_rest = (head < heads) & (behind < SIZE)
        rest = tl.load(states + head * head_stride + behind, mask=is_rest, other=0.0)
        tl.store(out + head * SIZE + behind, rest, mask=is_rest)


@triton.jit
def rotary_kernel(
    query, keys, cos, sin, new_query, new_keys,
    query_head, query_row, keys_head, keys_row,
    COUNT: tl.constexpr, SHARED: tl.constexpr, BY_HAND: tl.constexpr,
    SIZE: tl.constexpr, WIDTH: tl.constexpr, HEADS: tl.constexpr, BLOCK: tl.constexpr, REST: tl.constexpr,
):  # fmt: skip
    """Some heads of one row: first the tiles of COUNT query heads, then those of SHARED key heads."""
    row, tile = tl.program_id(0).to(tl.int64), tl.program_id(1)
    at = tl.arange(0, BLOCK)[None, :]
    is_in = at < WIDTH // 2
    low = row * WIDTH + at
    low_cos = tl.load(cos + low, mask=is_in, other=0.0).to(tl.float32)
    high_cos = tl.load(cos + low + WIDTH // 2, mask=is_in, other=0.0).to(tl.float32)
    low_sin = tl.load(sin + low, mask=is_in, other=0.0).to(tl.float32)
    high_sin = tl.load(sin + low + WIDTH // 2, mask=is_in, other=0.0).to(tl.float32)
    tiles: tl.constexpr = (COUNT + HEADS - 1) // HEADS
    if tile < tiles:
        _rotate_heads(
            query + row * query_row, new_query + row * COUNT * SIZE, tile * HEADS, COUNT, query_head,
            low_cos, high_cos, low_sin, high_sin, BY_HAND, SIZE, WIDTH, HEADS, BLOCK, REST,
        )  # fmt: skip
    else:
        _rotate_heads(
            keys + row * keys_row, new_keys + row * SHARED * SIZE, (tile - tiles) * HEADS, SHARED, keys_head,
            low_cos, high_cos, low_sin, high_sin, BY_HAND, SIZE, WIDTH, HEADS, BLOCK, REST,
        )  # fmt: skip
