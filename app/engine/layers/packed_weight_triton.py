"""A packed weight on a GPU, and our own kernels that multiply by it. Needs triton.

Numbers of up to 4 bits share a byte with another one; larger numbers have a byte each. A program computes OUTS
columns of the product. It reads its part of the weight once from beginning to end, because the weight is stored in
that order; widens the numbers in registers to the type of the states, in which they are exact; multiplies 16 of
them at a time on the matrix unit; and scales each sum in float32. So no weight is rounded, and a row's sum is added
in an order that does not depend on the other rows.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F  # noqa: N812
import triton
import triton.language as tl
from torch import Tensor

from app.engine.layers.packed_weight import GROUP, SLICE, Numbers, joined_parts, layout, tiled_scales
from app.engine.layers.quantised_layers import TILE

OUTS = SLICE
"""Rows of the weight per program: a weight of 4,096 rows keeps 128 multiprocessors busy."""
FEW_ROWS = 128
"""With more rows, such as a prompt's, each dequantised tile serves many rows, and torch's product is faster."""
ROW_GROUPS = 16
"""Groups of a row that one program dequantises."""


@triton.jit
def _numbers(byte, ZERO: tl.constexpr, kind: tl.constexpr):
    """Convert bytes to numbers less ZERO: the bits of 2**23 in float32 with a byte in the lowest bits are 2**23 +
    the byte."""
    bits = byte.to(tl.int32) | 0x4B000000
    return (bits.to(tl.float32, bitcast=True) - (8388608.0 + ZERO)).to(kind)


@triton.jit
def _unpacked(
    source, table,
    NEXT: tl.constexpr, ZERO: tl.constexpr, HAS_TABLE: tl.constexpr, BITS: tl.constexpr, kind: tl.constexpr,
):  # fmt: skip
    """Read the numbers of a group's first and second half at `source` [...]; with 8 bits they are NEXT bytes
    apart."""
    first = tl.load(source)
    if BITS == 8:
        second = tl.load(source + NEXT)
    else:
        second = first >> 4
        first = first & 15
    if HAS_TABLE:
        return tl.load(table + first).to(kind), tl.load(table + second).to(kind)
    return _numbers(first, ZERO, kind), _numbers(second, ZERO, kind)


@triton.jit
def _scales(scale, factors, at, factor_at, NEXT: tl.constexpr, HAS_FACTORS: tl.constexpr):
    """Read the scales of a group's two halves in float32; their factors are NEXT bytes apart."""
    first = tl.load(scale + at).to(tl.float32)
    if HAS_FACTORS:
        second = first * tl.load(factors + factor_at + NEXT).to(tl.float32)
        return first * tl.load(factors + factor_at).to(tl.float32), second
    return first, first


@triton.jit(do_not_specialize=["rows", "groups", "per"])
def packed_product_kernel(
    states, numbers, scale, factors, offset, offset_factors, table, out, rows, columns, size, groups, per,
    BITS: tl.constexpr, ZERO: tl.constexpr, FINE: tl.constexpr, HAS_FACTORS: tl.constexpr,
    HAS_OFFSET: tl.constexpr, HAS_OFFSET_FACTORS: tl.constexpr, HAS_TABLE: tl.constexpr, BLOCK: tl.constexpr,
    OUTS: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    """Compute a tile of `out` [rows, columns]: states [rows, size] times the weight transposed."""
    HALF: tl.constexpr = GROUP // 2
    BYTES: tl.constexpr = OUTS * GROUP * BITS // 8
    tile = tl.program_id(1).to(tl.int64)
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    lane, half = tl.arange(0, OUTS), tl.arange(0, HALF)
    source = numbers + tile * groups * BYTES + lane[None, :] * HALF + half[:, None]
    given = states + row[:, None].to(tl.int64) * size + half[None, :]
    is_row = row[:, None] < rows
    total = tl.zeros((BLOCK, OUTS), dtype=tl.float32)
    for group in range(groups):
        left_in, right_in = size - group * GROUP, size - group * GROUP - HALF
        left = tl.load(given + group * GROUP, mask=is_row & (half[None, :] < left_in), other=0.0)
        right = tl.load(given + group * GROUP + HALF, mask=is_row & (half[None, :] < right_in), other=0.0)
        first, second = _unpacked(
            source + group * BYTES, table, OUTS * HALF, ZERO, HAS_TABLE, BITS, left.dtype
        )
        at = (tile * (groups // per) + group // per) * OUTS + lane
        factor_at = (tile * groups + group) * (1 + FINE) * OUTS + lane
        left_scale, right_scale = _scales(scale, factors, at, factor_at, FINE * OUTS, HAS_FACTORS)
        total += tl.dot(left, first, input_precision="ieee") * left_scale[None, :]
        total += tl.dot(right, second, input_precision="ieee") * right_scale[None, :]
        if HAS_OFFSET:
            left_scale, right_scale = _scales(
                offset, offset_factors, at, factor_at, FINE * OUTS, HAS_OFFSET_FACTORS
            )
            total += tl.sum(left.to(tl.float32), 1)[:, None] * left_scale[None, :]
            total += tl.sum(right.to(tl.float32), 1)[:, None] * right_scale[None, :]
    column = tile * OUTS + lane[None, :]
    is_in = is_row & (column < columns)
    tl.store(out + row[:, None].to(tl.int64) * columns + column, total.to(out.dtype.element_ty), mask=is_in)


@triton.jit(do_not_specialize=["groups", "per"])
def packed_rows_kernel(
    ids, numbers, scale, factors, offset, offset_factors, table, out, size, groups, per,
    BITS: tl.constexpr, ZERO: tl.constexpr, FINE: tl.constexpr, HAS_FACTORS: tl.constexpr,
    HAS_OFFSET: tl.constexpr, HAS_OFFSET_FACTORS: tl.constexpr, HAS_TABLE: tl.constexpr, BLOCK: tl.constexpr,
    OUTS: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    """Dequantise BLOCK groups of the weight's row with each of these ids [n] to `out` [n, size]."""
    HALF: tl.constexpr = GROUP // 2
    BYTES: tl.constexpr = OUTS * GROUP * BITS // 8
    row = tl.load(ids + tl.program_id(0)).to(tl.int64)
    tile, lane, half = row // OUTS, row % OUTS, tl.arange(0, HALF)
    group = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    group = tl.minimum(group, groups - 1)  # the last group may be written twice
    source = numbers + (tile * groups + group[:, None]) * BYTES + lane * HALF + half[None, :]
    first, second = _unpacked(source, table, OUTS * HALF, ZERO, HAS_TABLE, BITS, tl.float32)
    at = (tile * (groups // per) + group // per) * OUTS + lane
    factor_at = (tile * groups + group) * (1 + FINE) * OUTS + lane
    left_scale, right_scale = _scales(scale, factors, at, factor_at, FINE * OUTS, HAS_FACTORS)
    first, second = first * left_scale[:, None], second * right_scale[:, None]
    if HAS_OFFSET:
        left_scale, right_scale = _scales(
            offset, offset_factors, at, factor_at, FINE * OUTS, HAS_OFFSET_FACTORS
        )
        first, second = first + left_scale[:, None], second + right_scale[:, None]
    column = group[:, None] * GROUP + half[None, :]
    target = out + tl.program_id(0).to(tl.int64) * size + column
    tl.store(target, first.to(out.dtype.element_ty), mask=column < size)
    tl.store(target + HALF, second.to(out.dtype.element_ty), mask=column + HALF < size)


def tile_rows(rows: int) -> int:
    """Return how many rows of states one program takes."""
    # A Hopper or Blackwell GPU would multiply 64 rows with other instructions, which may add in another order.
    return 16 if rows <= 16 else 32


@dataclass(frozen=True, slots=True)
class GpuPackedWeight:
    """A weight in tiles of OUTS rows and groups of GROUP columns; numbers have 4 or 8 bits."""

    shape: tuple[int, int]
    bits: int
    zero: int
    parts: dict[str, Tensor] = field(repr=False)
    rounding = 0.0

    def product(self, states: Tensor) -> Tensor:
        """Multiply few rows in one launch, and more rows by dequantised tiles: [rows, in] to [rows, out]."""
        (rows, size), columns = states.shape, self.shape[0]
        if rows > FEW_ROWS:
            ids = torch.arange(columns, device=states.device)
            tiles = torch.split(ids, max(1, TILE[states.device.type] // size))
            return torch.cat([F.linear(states, self._rows(each, states.dtype)) for each in tiles], -1)
        out, block = states.new_empty((rows, columns)), tile_rows(rows)
        packed_product_kernel[(-(-rows // block), -(-columns // OUTS))](
            states.contiguous(), *self._tensors(), out, rows, columns, size, *self._layout[:2], BLOCK=block,
            num_warps=2, num_stages=6, **self._form(),
        )  # fmt: skip
        return out

    def rows(self, ids: Tensor) -> Tensor:
        """Dequantise the rows with these ids [...]: [..., in] in float32."""
        return self._rows(ids.flatten(), torch.float32).view(*ids.shape, self.shape[1])

    def _rows(self, ids: Tensor, dtype: torch.dtype) -> Tensor:
        out = torch.empty((len(ids), self.shape[1]), dtype=dtype, device=ids.device)
        groups, per, _is_fine = self._layout
        packed_rows_kernel[(len(ids), -(-groups // ROW_GROUPS))](
            ids,
            *self._tensors(),
            out,
            self.shape[1],
            groups,
            per,
            BLOCK=ROW_GROUPS,
            num_warps=1,
            **self._form(),
        )
        return out

    def _tensors(self) -> list[Tensor]:
        """Return the parts in the order of the kernels' arguments; one that is missing is never read."""
        numbers = self.parts["numbers"]
        names = ("scale", "factors", "offset", "offset_factors", "table")
        return [numbers, *(self.parts.get(name, numbers) for name in names)]

    @property
    def _layout(self) -> tuple[int, int, bool]:
        return layout(self.shape, self.parts)

    def _form(self) -> dict[str, int]:
        names = ("factors", "offset", "offset_factors", "table")
        has = {f"HAS_{name.upper()}": name in self.parts for name in names}
        is_fine = self._layout[2]
        return {"BITS": self.bits, "ZERO": self.zero, "FINE": is_fine, "OUTS": OUTS, "GROUP": GROUP, **has}


def pack_for_gpu(shape: tuple[int, int], slices: Iterable[Numbers], device: torch.device) -> GpuPackedWeight:
    """Pack slices of a weight's rows, in order; all slices but the last must consist of whole tiles."""

    def packed(numbers: Numbers) -> dict[str, Tensor]:
        parts = {"numbers": _packed_numbers(numbers)} | tiled_scales(numbers, OUTS)
        return {name: part.to(device) for name, part in parts.items()}

    numbers, parts = joined_parts(-(-shape[0] // OUTS), slices, packed)
    return GpuPackedWeight(shape, _width(numbers), numbers.zero + 128 * (numbers.bits == 8), parts)


def _width(numbers: Numbers) -> int:
    return 4 if numbers.bits <= 4 else 8


def _packed_numbers(numbers: Numbers) -> Tensor:
    """Pack numbers into tiles [tiles, groups, 1 or 2, OUTS, GROUP / 2], unsigned."""
    values = numbers.values.view(torch.uint8)
    values = values ^ 128 if numbers.bits == 8 else values
    whole = F.pad(values, (0, -values.shape[1] % GROUP, 0, -len(values) % OUTS))
    halves = whole.view(-1, OUTS, whole.shape[1] // GROUP, 2, GROUP // 2).permute(0, 2, 3, 1, 4)
    if _width(numbers) == 4:
        return (halves[:, :, :1] | halves[:, :, 1:] << 4).contiguous()
    return halves.contiguous()
