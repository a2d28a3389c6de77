"""The kernels of fused layers on GPUs, and their launches. Needs triton.

One program does all operations for a row, or for a part of it, in float32, and rounds wherever torch would have
written a result in the model's type. Products and sums are rounded one by one (no multiply-add is fused), so all
values are bitwise identical to torch's, except GELU, sums over a row, and the values that are computed from them.
"""

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.language.extra import libdevice

from app.engine.block.block import CacheSlots
from app.engine.layers.fused_modules import Activation, HeadNorms, NormShape

PIECE = 1024
"""Values of a gated product per program: a row of 11,008 values keeps 11 multiprocessors busy."""

PAIRS = 256
"""About how many pairs of values a program rotates, of one head or of several small heads."""

_ALIGNED = 16
"""The first row's address must be a multiple of this many bytes, so that kernels use their widest reads. With
narrower reads each thread would add other values of the row, and the sum would be rounded differently."""

_NO_NORM = NormShape(0.0, False)


@triton.jit
def _rounded(values, like, BY_HAND: tl.constexpr):
    """Round float32 values to the type that `like` points to; return them as float32.

    Triton's interpreter truncates to bfloat16, so BY_HAND rounds to the nearest value, and to even on a tie."""
    if BY_HAND and like.dtype.element_ty == tl.bfloat16:
        bits = values.to(tl.uint32, bitcast=True)
        nearest = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16) << 16
        return tl.where(values == values, nearest.to(tl.float32, bitcast=True), values)
    return values.to(like.dtype.element_ty).to(tl.float32)


@triton.jit
def _weighted(
    values, weights, like, ROUNDS_FIRST: tl.constexpr, ADDS_ONE: tl.constexpr, BY_HAND: tl.constexpr
):
    """Multiply normalised float32 values by a norm's weights, rounding as the norm does."""
    if ROUNDS_FIRST:
        values = _rounded(values, like, BY_HAND)
    if ADDS_ONE:
        weights += 1.0
    return _rounded(values * weights, like, BY_HAND)


@triton.jit
def norm_kernel(
    states, others, weight, total, out, factor, eps,
    HAS_OTHERS: tl.constexpr, ROUNDS_FIRST: tl.constexpr, ADDS_ONE: tl.constexpr,
    BY_HAND: tl.constexpr, SIZE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Normalise one row of SIZE values. `factor` is 1 / SIZE.

    With HAS_OTHERS the row of `others` is added first, and the sum is written to `total`."""
    row = tl.program_id(0).to(tl.int64) * SIZE
    at = tl.arange(0, BLOCK)
    is_in = at < SIZE
    values = tl.load(states + row + at, mask=is_in, other=0.0).to(tl.float32)
    if HAS_OTHERS:
        values += tl.load(others + row + at, mask=is_in, other=0.0).to(tl.float32)
        values = _rounded(values, out, BY_HAND)
        tl.store(total + row + at, values.to(out.dtype.element_ty), mask=is_in)
    values *= tl.rsqrt(tl.sum(values * values, axis=0) * factor + eps)
    weights = tl.load(weight + at, mask=is_in, other=0.0).to(tl.float32)
    values = _weighted(values, weights, out, ROUNDS_FIRST, ADDS_ONE, BY_HAND)
    tl.store(out + row + at, values.to(out.dtype.element_ty), mask=is_in)


@triton.jit
def _exponential(values, BY_HAND: tl.constexpr):
    """Compute exp as torch does on a GPU, because Triton's faster exp rounds differently. With BY_HAND, use
    Triton's exp, because its interpreter has no libdevice."""
    if BY_HAND:
        return tl.exp(values)
    return libdevice.exp(values)


@triton.jit
def gate_kernel(
    gate, up, out, gate_row, up_row,
    ACTIVATION: tl.constexpr, BY_HAND: tl.constexpr, SIZE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Compute a piece of one row: activation(`gate`), rounded, times `up`."""
    row = tl.program_id(0).to(tl.int64)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    is_in = at < SIZE
    activated = tl.load(gate + row * gate_row + at, mask=is_in, other=0.0).to(tl.float32)
    if ACTIVATION == "silu":
        activated = tl.math.div_rn(activated, 1.0 + _exponential(-activated, BY_HAND))
    else:
        # 0.5 x (1 + tanh y) equals x * sigmoid(2 y), which loses no digits when tanh is near -1.
        twice = 1.5957691216057308 * (activated + 0.044715 * activated * activated * activated)
        activated = tl.math.div_rn(activated, 1.0 + _exponential(-twice, BY_HAND))
    product = _rounded(activated, out, BY_HAND) * tl.load(up + row * up_row + at, mask=is_in, other=0.0).to(
        tl.float32
    )
    product = _rounded(product, out, BY_HAND)
    tl.store(out + row * SIZE + at, product.to(out.dtype.element_ty), mask=is_in)


@triton.jit
def _rotate_heads(
    states, out, weight, first, heads, head_stride, out_head, low_cos, high_cos, low_sin, high_sin, factor, eps,
    HAS_NORM: tl.constexpr, ROUNDS_FIRST: tl.constexpr, ADDS_ONE: tl.constexpr, BY_HAND: tl.constexpr,
    SIZE: tl.constexpr, WIDTH: tl.constexpr, HEADS: tl.constexpr, BLOCK: tl.constexpr, REST: tl.constexpr,
):  # fmt: skip
    """Rotate up to HEADS heads of one row, normalised first if HAS_NORM. `states` and `out` point to head 0."""
    half: tl.constexpr = WIDTH // 2
    kind = out.dtype.element_ty
    head = (first + tl.arange(0, HEADS))[:, None].to(tl.int64)
    at, after = tl.arange(0, BLOCK)[None, :], WIDTH + tl.arange(0, REST)[None, :]
    is_in, is_rest = (head < heads) & (at < half), (head < heads) & (after < SIZE)
    source, target = states + head * head_stride, out + head * out_head
    low = tl.load(source + at, mask=is_in, other=0.0).to(tl.float32)
    high = tl.load(source + half + at, mask=is_in, other=0.0).to(tl.float32)
    rest = tl.load(source + after, mask=is_rest, other=0.0).to(tl.float32)
    if HAS_NORM:
        total = tl.sum(low * low, axis=1) + tl.sum(high * high, axis=1) + tl.sum(rest * rest, axis=1)
        scale = tl.rsqrt(total * factor + eps)[:, None]
        low_weights = tl.load(weight + at, mask=at < half, other=0.0).to(tl.float32)
        high_weights = tl.load(weight + half + at, mask=at < half, other=0.0).to(tl.float32)
        rest_weights = tl.load(weight + after, mask=after < SIZE, other=0.0).to(tl.float32)
        low = _weighted(low * scale, low_weights, out, ROUNDS_FIRST, ADDS_ONE, BY_HAND)
        high = _weighted(high * scale, high_weights, out, ROUNDS_FIRST, ADDS_ONE, BY_HAND)
        rest = _weighted(rest * scale, rest_weights, out, ROUNDS_FIRST, ADDS_ONE, BY_HAND)
    new_low = _rounded(low * low_cos, out, BY_HAND) - _rounded(high * low_sin, out, BY_HAND)
    new_high = _rounded(high * high_cos, out, BY_HAND) + _rounded(low * high_sin, out, BY_HAND)
    tl.store(target + at, _rounded(new_low, out, BY_HAND).to(kind), mask=is_in)
    tl.store(target + half + at, _rounded(new_high, out, BY_HAND).to(kind), mask=is_in)
    if WIDTH < SIZE:
        tl.store(target + after, rest.to(kind), mask=is_rest)


@triton.jit
def _copy_heads(
    states, out, first, heads, head_stride, out_head,
    SIZE: tl.constexpr, HEADS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Copy up to HEADS heads of one row to `out`."""
    head, at = (first + tl.arange(0, HEADS))[:, None].to(tl.int64), tl.arange(0, BLOCK)[None, :]
    is_in = (head < heads) & (at < SIZE)
    tl.store(out + head * out_head + at, tl.load(states + head * head_stride + at, mask=is_in), mask=is_in)


@triton.jit(do_not_specialize=["begin"])
def rotary_kernel(
    query, keys, values, cos, sin, query_weight, keys_weight, slots, new_query, cached_keys, cached_values,
    query_head, query_row, keys_head, keys_row, values_head, values_row, cached_keys_head, cached_values_head,
    begin, factor, eps,
    HAS_SLOTS: tl.constexpr, COUNT: tl.constexpr, SHARED: tl.constexpr,
    HAS_NORM: tl.constexpr, ROUNDS_FIRST: tl.constexpr, ADDS_ONE: tl.constexpr, BY_HAND: tl.constexpr,
    SIZE: tl.constexpr, WIDTH: tl.constexpr, HEADS: tl.constexpr, BLOCK: tl.constexpr, REST: tl.constexpr,
    WHOLE: tl.constexpr,
):  # fmt: skip
    """Rotate up to HEADS query or key heads of one row, or copy as many value heads.

    A row's programs take first its COUNT query heads, then its SHARED key heads, and then its SHARED value heads.
    Keys and values are written to the row's slot in the cache: `slots[row]` with HAS_SLOTS, else `begin` + row."""
    row, tile = tl.program_id(0).to(tl.int64), tl.program_id(1)
    at = tl.arange(0, BLOCK)[None, :]
    is_in = at < WIDTH // 2
    low = row * WIDTH + at
    low_cos = tl.load(cos + low, mask=is_in, other=0.0).to(tl.float32)
    high_cos = tl.load(cos + low + WIDTH // 2, mask=is_in, other=0.0).to(tl.float32)
    low_sin = tl.load(sin + low, mask=is_in, other=0.0).to(tl.float32)
    high_sin = tl.load(sin + low + WIDTH // 2, mask=is_in, other=0.0).to(tl.float32)
    if HAS_SLOTS:
        slot = tl.load(slots + row).to(tl.int64)
    else:
        slot = begin + row
    tiles: tl.constexpr = (COUNT + HEADS - 1) // HEADS
    shared_tiles: tl.constexpr = (SHARED + HEADS - 1) // HEADS
    if tile < tiles:
        _rotate_heads(
            query + row * query_row, new_query + row * COUNT * SIZE, query_weight, tile * HEADS, COUNT,
            query_head, SIZE, low_cos, high_cos, low_sin, high_sin, factor, eps,
            HAS_NORM, ROUNDS_FIRST, ADDS_ONE, BY_HAND, SIZE, WIDTH, HEADS, BLOCK, REST,
        )  # fmt: skip
    elif tile < tiles + shared_tiles:
        _rotate_heads(
            keys + row * keys_row, cached_keys + slot * SIZE, keys_weight, (tile - tiles) * HEADS, SHARED,
            keys_head, cached_keys_head, low_cos, high_cos, low_sin, high_sin, factor, eps,
            HAS_NORM, ROUNDS_FIRST, ADDS_ONE, BY_HAND, SIZE, WIDTH, HEADS, BLOCK, REST,
        )  # fmt: skip
    else:
        _copy_heads(
            values + row * values_row, cached_values + slot * SIZE, (tile - tiles - shared_tiles) * HEADS, SHARED,
            values_head, cached_values_head, SIZE, HEADS, WHOLE,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class TritonKernels:
    """`LayerKernels` in Triton. `by_hand` is true if Triton's interpreter runs the kernels (BY_HAND above)."""

    by_hand: bool = False

    def rms_norm(self, states: Tensor, weight: Tensor, shape: NormShape) -> Tensor:
        return self._norm(states, None, weight, shape)[1].view(states.shape)

    def add_rms_norm(
        self, states: Tensor, others: Tensor, weight: Tensor, shape: NormShape
    ) -> tuple[Tensor, Tensor]:
        total, out = self._norm(states, others, weight, shape)
        return total.view(states.shape), out.view(states.shape)

    def gated_activation(self, gate: Tensor, up: Tensor, activation: Activation) -> Tensor:
        size = gate.shape[-1]
        gates, ups = gate.reshape(-1, size), up.reshape(-1, size)
        out = gates.new_empty(gates.shape)
        gate_kernel[(len(out), -(-size // PIECE))](
            gates, ups, out, gates.stride(0), ups.stride(0), ACTIVATION=activation, BY_HAND=self.by_hand,
            SIZE=size, BLOCK=min(PIECE, _padded(size)), num_warps=4, enable_fp_fusion=False,
        )  # fmt: skip
        return out.view(gate.shape)

    def write_rotated(
        self,
        states: tuple[Tensor, Tensor, Tensor],
        tables: tuple[Tensor, Tensor],
        slots: CacheSlots,
        norms: HeadNorms | None = None,
    ) -> Tensor:
        query, keys, values = (each if each.stride(3) == 1 else each.contiguous() for each in states)
        cos, sin = (table.contiguous() for table in tables)
        (_, count, rows, size), shared, width = query.shape, keys.shape[1], cos.shape[-1]
        # `new_query` has the memory layout of a query projection's output.
        new_query = query.new_empty((1, rows, count, size)).transpose(1, 2)
        block = _padded(width // 2)
        heads = max(1, PAIRS // block)
        shape = norms.shape if norms else _NO_NORM
        rotary_kernel[(rows, -(-count // heads) + 2 * -(-shared // heads))](
            *(query, keys, values, cos, sin),
            *((norms.query, norms.keys) if norms else (query, query)),
            query if slots.indices is None else slots.indices,
            *(new_query, slots.keys, slots.values),
            *(stride for each in (query, keys, values) for stride in each.stride()[1:3]),
            *(slots.keys.stride(1), slots.values.stride(1)),
            *(slots.begin, 1 / size, shape.eps),
            HAS_SLOTS=slots.indices is not None, COUNT=count, SHARED=shared, HAS_NORM=norms is not None,
            ROUNDS_FIRST=shape.rounds_first, ADDS_ONE=shape.adds_one,
            BY_HAND=self.by_hand, SIZE=size, WIDTH=width, HEADS=heads, BLOCK=block,
            REST=_padded(max(1, size - width)), WHOLE=_padded(size), num_warps=1, enable_fp_fusion=False,
        )  # fmt: skip
        return new_query

    def _norm(
        self, states: Tensor, others: Tensor | None, weight: Tensor, shape: NormShape
    ) -> tuple[Tensor, Tensor]:
        """Add `others`; return the sum and its norm, both [n, size]. Without `others`, return the norm twice."""
        rows = _rows(states)
        out = torch.empty_like(rows)
        total = out if others is None else torch.empty_like(rows)
        size = rows.shape[1]
        block = _padded(size)
        inverse = 1 / size  # on a GPU, torch's mean multiplies by the inverse
        norm_kernel[(len(rows),)](
            rows, rows if others is None else _rows(others), weight, total, out, inverse, shape.eps,
            HAS_OTHERS=others is not None, ROUNDS_FIRST=shape.rounds_first,
            ADDS_ONE=shape.adds_one, BY_HAND=self.by_hand, SIZE=size, BLOCK=block,
            num_warps=max(1, min(16, block // 512)), enable_fp_fusion=False,
        )  # fmt: skip
        return total, out


def on_device(device: torch.device) -> TritonKernels:
    """Return the kernels for this device; without CUDA they run in Triton's interpreter."""
    return TritonKernels(by_hand=device.type != "cuda")


def _rows(states: Tensor) -> Tensor:
    """Return the states as contiguous rows [n, size] at an address that is a multiple of _ALIGNED."""
    rows = states.reshape(-1, states.shape[-1]).contiguous()
    return rows.clone() if rows.data_ptr() % _ALIGNED else rows


def _padded(size: int) -> int:
    """Return the smallest power of two that is at least `size`."""
    return 1 << (size - 1).bit_length()
