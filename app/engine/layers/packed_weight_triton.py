"""A packed weight on a GPU, and our own kernels that multiply by it. Needs triton.

A program of our kernels computes WIDTH columns of the product from some groups of the weight. It converts the
numbers in registers to the type of the states, in which they are exact. It multiplies 16 numbers at a time on the
matrix unit, and scales each sum in float32. So no weight is rounded, and the order in which a row's sum is added
does not depend on the other rows. Several programs share the groups of a tile, so that the whole GPU reads even a
small weight."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import cast

import torch
import torch.nn.functional as F  # noqa: N812
import triton
import triton.language as tl
from torch import Tensor

from app.engine.attention.kernels import is_interpreted
from app.engine.layers.packed_weight import (
    GROUP,
    SLICE,
    Numbers,
    PackedWeight,
    joined_parts,
    layout,
    padded,
    tiled_scales,
)
from app.engine.layers.packed_weight_ptx import conversions
from app.engine.layers.quantised_layers import rows_of_tile

OUTS = SLICE
"""Rows of a stored tile."""
WIDTH = 64
"""Columns of the product per program: two tiles, a warp each. With four warps a Hopper or Blackwell GPU would
multiply with other instructions, which may add in another order."""
PROGRAMS, MOST_SPLITS, FEW_GROUPS = 2048, 16, 4
"""How many programs a product should have, so that enough of the weight is read at a time. Then the maximum number
of programs that share a tile, and the minimum number of groups for each of these programs."""
FEWEST_ROWS = 8
"""Minimum number of rows that the matrix unit multiplies at a time."""
SUMMED = 16
"""Columns of the product per program of `packed_sum_kernel`."""
FEW_ROWS = 128
"""With more rows, such as a prompt's, torch's product with dequantised tiles is faster than our kernels."""
ROW_GROUPS = 16
"""Groups of a row that one program dequantises."""


@triton.jit
def _numbers(byte, ZERO: tl.constexpr, kind: tl.constexpr):
    """Convert bytes to floats and subtract ZERO. In float32, a byte in the lowest bits of 2**23 adds its value."""
    bits = byte.to(tl.int32) | 0x4B000000
    return (bits.to(tl.float32, bitcast=True) - (8388608.0 + ZERO)).to(kind)


@triton.jit
def _converted(byte, ASM: tl.constexpr, kind: tl.constexpr):
    """Convert bytes to numbers by ASM, four bytes at a time."""
    return tl.inline_asm_elementwise(ASM, "=r,=r,r", [byte], tl.int16, is_pure=True, pack=4).to(
        kind, bitcast=True
    )


@triton.jit
def _unpacked(
    source, table,
    NEXT: tl.constexpr, ZERO: tl.constexpr, HAS_TABLE: tl.constexpr, BITS: tl.constexpr, kind: tl.constexpr,
):  # fmt: skip
    """Read the numbers of a group's two halves at `source` [...]; with 8 bits the halves are NEXT bytes apart."""
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
def _weights(
    source, table,
    NEXT: tl.constexpr, ZERO: tl.constexpr, HAS_TABLE: tl.constexpr, BITS: tl.constexpr, kind: tl.constexpr,
    LOW: tl.constexpr, HIGH: tl.constexpr, ONE: tl.constexpr,
):  # fmt: skip
    """Read the numbers of a group's two halves, and make a tensor of ones in the same layout."""
    if LOW != "":
        first = tl.load(source)
        second = first
        if BITS == 8:
            second = tl.load(source + NEXT)
        return (_converted(first, LOW, kind), _converted(second, HIGH, kind)), _converted(first, ONE, kind)
    else:  # noqa: RET505 - triton compiles what follows a return
        numbers = _unpacked(source, table, NEXT, ZERO, HAS_TABLE, BITS, kind)
        return numbers, tl.full(numbers[0].shape, 1.0, tl.float32).to(kind)


@triton.jit
def _read_scales(scale, factors, at, factor_at, NEXT: tl.constexpr, HAS_FACTORS: tl.constexpr):
    """Read a group's scale or offset and, if HAS_FACTORS, the factors of its two halves, NEXT bytes apart."""
    read = tl.load(scale + at)
    if HAS_FACTORS:
        return read, tl.load(factors + factor_at), tl.load(factors + factor_at + NEXT)
    else:  # noqa: RET505 - triton compiles what follows a return
        return read, read, read


@triton.jit
def _scales(read, HAS_FACTORS: tl.constexpr):
    """Return the scales or offsets of a group's two halves in float32."""
    scale = read[0].to(tl.float32)
    if HAS_FACTORS:
        return scale * read[1].to(tl.float32), scale * read[2].to(tl.float32)
    return scale, scale


@triton.jit
def _scaled_product(total, states, weights, scales, FINE: tl.constexpr):
    """Add the product of a group's two halves, times their scales, to the total."""
    if FINE:
        total += tl.dot(weights[0], states[0], input_precision="ieee") * scales[0][:, None]
        return total + tl.dot(weights[1], states[1], input_precision="ieee") * scales[1][:, None]
    first = tl.dot(weights[0], states[0], input_precision="ieee")
    return total + tl.dot(weights[1], states[1], first, input_precision="ieee") * scales[0][:, None]


@triton.jit
def _store(
    target, total, is_in, partial, arrived,
    SPLITS: tl.constexpr, ADDS: tl.constexpr, BLOCK: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """Store a tile of the product. If several programs share it, each stores its sum; if ADDS, the last program
    adds these sums up and stores the tile."""
    if SPLITS == 1:
        tl.store(target, total.to(target.dtype.element_ty), mask=is_in)
    else:
        number = tl.program_id(1) * tl.num_programs(0) + tl.program_id(0)
        shared = partial + number.to(tl.int64) * SPLITS * BLOCK * WIDTH
        shared = shared + tl.arange(0, WIDTH)[:, None] * BLOCK + tl.arange(0, BLOCK)[None, :]
        tl.store(shared + tl.program_id(2) * BLOCK * WIDTH, total, mask=is_in)
        if ADDS:
            tl.debug_barrier()
            if tl.atomic_add(arrived + number, 1) == SPLITS - 1:
                total = tl.zeros((WIDTH, BLOCK), dtype=tl.float32)
                for one in tl.static_range(SPLITS):
                    total += tl.load(
                        shared + one * BLOCK * WIDTH, mask=is_in, other=0.0, cache_modifier=".cg"
                    )
                tl.store(target, total.to(target.dtype.element_ty), mask=is_in)
                tl.store(arrived + number, 0)


@triton.jit(do_not_specialize=["rows"])
def packed_sum_kernel(
    partial, out, rows, columns,
    SPLITS: tl.constexpr, BLOCK: tl.constexpr, WIDTH: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Add the programs' sums of COLUMNS columns, in the order of `_store`; write to `out` [rows, columns]."""
    row, lane = tl.arange(0, BLOCK)[None, :], (tl.program_id(2) * COLUMNS + tl.arange(0, COLUMNS))[:, None]
    number = tl.program_id(1) * tl.num_programs(0) + tl.program_id(0)
    source = partial + number.to(tl.int64) * SPLITS * BLOCK * WIDTH + lane * BLOCK + row
    row, column = tl.program_id(0) * BLOCK + row, tl.program_id(1) * WIDTH + lane
    is_in = (row < rows) & (column < columns)
    total = tl.zeros((COLUMNS, BLOCK), dtype=tl.float32)
    for one in tl.static_range(SPLITS):
        total += tl.load(source + one * BLOCK * WIDTH, mask=is_in, other=0.0)
    tl.store(out + row.to(tl.int64) * columns + column, total.to(out.dtype.element_ty), mask=is_in)


@triton.jit(do_not_specialize=["rows", "groups", "tiles"])
def packed_product_kernel(
    states, numbers, scale, factors, offset, offset_factors, table, out, partial, arrived,
    rows, columns, size, groups, tiles,
    PER: tl.constexpr, EVEN: tl.constexpr, BITS: tl.constexpr, ZERO: tl.constexpr, FINE: tl.constexpr,
    HAS_FACTORS: tl.constexpr, HAS_OFFSET: tl.constexpr, HAS_OFFSET_FACTORS: tl.constexpr,
    HAS_TABLE: tl.constexpr, BLOCK: tl.constexpr, OUTS: tl.constexpr, GROUP: tl.constexpr, WIDTH: tl.constexpr,
    SPLITS: tl.constexpr, ADDS: tl.constexpr, UNROLL: tl.constexpr,
    LOW: tl.constexpr, HIGH: tl.constexpr, ONE: tl.constexpr,
):  # fmt: skip
    """Compute a tile of `out` [rows, columns]: states [rows, size] times the weight transposed.

    The tile is computed transposed, [WIDTH, BLOCK], because then the matrix unit takes 8 rows of states at a
    time, and the converted weights need no other layout. If several programs (SPLITS) share the groups of a
    tile, they write their sums to `partial` [tiles of WIDTH columns, blocks of rows, SPLITS, WIDTH, BLOCK].
    If ADDS, the last program adds these sums up."""
    HALF: tl.constexpr = GROUP // 2
    BYTES: tl.constexpr = OUTS * GROUP * BITS // 8
    FACTORS: tl.constexpr = (1 + FINE) * OUTS
    wide, split = tl.program_id(1), tl.program_id(2)
    row = (tl.program_id(0) * BLOCK + tl.arange(0, BLOCK))[None, :]
    lane, half = tl.arange(0, WIDTH), tl.arange(0, HALF)
    tile = tl.minimum(wide * (WIDTH // OUTS) + lane // OUTS, tiles - 1).to(tl.int64)
    # Eight bytes per thread, because with more triton does not read weights in advance.
    source = (
        numbers + (tile * groups * BYTES + lane % OUTS * HALF)[:, None] + tl.max_contiguous(half, 8)[None, :]
    )
    scale_at = tile * (groups // PER) * OUTS + lane % OUTS
    factor_at = tile * groups * FACTORS + lane % OUTS
    given = states + row.to(tl.int64) * size + half[:, None]
    is_row = row < rows
    total = tl.zeros((WIDTH, BLOCK), dtype=tl.float32)
    begin, end = groups * split // SPLITS, groups * (split + 1) // SPLITS
    at, at_factor = scale_at + begin // PER * OUTS, factor_at + begin * FACTORS
    next_scale = _read_scales(scale, factors, at, at_factor, FINE * OUTS, HAS_FACTORS)
    next_offset = _read_scales(offset, offset_factors, at, at_factor, FINE * OUTS, HAS_OFFSET_FACTORS)
    for step in range(begin, end, UNROLL):
        for ahead in tl.static_range(UNROLL):
            group = step + ahead
            is_left, is_right = is_row, is_row
            if not EVEN:
                is_left = is_row & (group * GROUP + half[:, None] < size)
                is_right = is_row & (group * GROUP + HALF + half[:, None] < size)
            left = tl.load(given + group * GROUP, mask=is_left, other=0.0)
            right = tl.load(given + group * GROUP + HALF, mask=is_right, other=0.0)
            weights, one = _weights(
                source + group * BYTES, table, OUTS * HALF, ZERO, HAS_TABLE, BITS, left.dtype, LOW, HIGH, ONE
            )
            scales, offsets = _scales(next_scale, HAS_FACTORS), _scales(next_offset, HAS_OFFSET_FACTORS)
            following = tl.minimum(group + 1, end - 1)
            at, at_factor = scale_at + following // PER * OUTS, factor_at + following * FACTORS
            next_scale = _read_scales(scale, factors, at, at_factor, FINE * OUTS, HAS_FACTORS)
            next_offset = _read_scales(offset, offset_factors, at, at_factor, FINE * OUTS, HAS_OFFSET_FACTORS)
            total = _scaled_product(total, (left, right), weights, scales, FINE)
            if HAS_OFFSET:
                total = _scaled_product(total, (left, right), (one, one), offsets, FINE)
    column = (wide * WIDTH + lane)[:, None]
    target = out + row.to(tl.int64) * columns + column
    _store(target, total, is_row & (column < columns), partial, arrived, SPLITS, ADDS, BLOCK, WIDTH)


@triton.jit(do_not_specialize=["groups", "per"])
def packed_rows_kernel(
    ids, numbers, scale, factors, offset, offset_factors, table, out, size, groups, per,
    BITS: tl.constexpr, ZERO: tl.constexpr, FINE: tl.constexpr, HAS_FACTORS: tl.constexpr,
    HAS_OFFSET: tl.constexpr, HAS_OFFSET_FACTORS: tl.constexpr, HAS_TABLE: tl.constexpr, BLOCK: tl.constexpr,
    OUTS: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    """Dequantise BLOCK groups of the weight's row ids[i], for ids [n], to row i of `out` [n, size]."""
    HALF: tl.constexpr = GROUP // 2
    BYTES: tl.constexpr = OUTS * GROUP * BITS // 8
    row = tl.load(ids + tl.program_id(0)).to(tl.int64)
    tile, lane, half = row // OUTS, row % OUTS, tl.arange(0, HALF)
    group = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    group = tl.minimum(group, groups - 1)  # the last group may be written several times
    source = numbers + (tile * groups + group[:, None]) * BYTES + lane * HALF + half[None, :]
    first, second = _unpacked(source, table, OUTS * HALF, ZERO, HAS_TABLE, BITS, tl.float32)
    at = (tile * (groups // per) + group // per) * OUTS + lane
    factor_at = (tile * groups + group) * (1 + FINE) * OUTS + lane
    read = _read_scales(scale, factors, at, factor_at, FINE * OUTS, HAS_FACTORS)
    left_scale, right_scale = _scales(read, HAS_FACTORS)
    first, second = first * left_scale[:, None], second * right_scale[:, None]
    if HAS_OFFSET:
        read = _read_scales(offset, offset_factors, at, factor_at, FINE * OUTS, HAS_OFFSET_FACTORS)
        left_scale, right_scale = _scales(read, HAS_OFFSET_FACTORS)
        first, second = first + left_scale[:, None], second + right_scale[:, None]
    column = group[:, None] * GROUP + half[None, :]
    target = out + tl.program_id(0).to(tl.int64) * size + column
    tl.store(target, first.to(out.dtype.element_ty), mask=column < size)
    tl.store(target + HALF, second.to(out.dtype.element_ty), mask=column + HALF < size)


def most_rows(device: torch.device) -> int:
    """Return the maximum number of rows of states that a program multiplies."""
    if device.type == "cuda" and torch.cuda.get_device_capability(device) < (8, 0):
        return 16  # Triton does not use Turing's matrix units, so more rows would not fit the registers
    return 32  # on an H200 one program for 64 rows takes as long as two for 32 and nearly fills the registers


def splits_of(columns: int, groups: int) -> int:
    """Return how many programs share a tile of WIDTH columns. The number does not depend on the rows, so that each
    row's sum is always added in the same order."""
    wanted = min(PROGRAMS // -(-columns // WIDTH), groups // FEW_GROUPS, MOST_SPLITS)
    return 1 << max(0, wanted.bit_length() - 1)


def product_tile(rows: int, groups: float, dtype: torch.dtype, most_rows: int) -> tuple[int, int, int]:
    """Return the numbers of rows of a tile, of groups per step of a program's loop, and of pipeline stages.

    `rows` is at most FEW_ROWS; each program multiplies `groups` groups. On an H200, two groups per step of the
    loop are faster with up to 8 rows, and slower with more rows."""
    if dtype == torch.float32:
        return 16, 1, 5
    block = min(most_rows, max(FEWEST_ROWS, 1 << (rows - 1).bit_length()))
    return (block, 2, 3) if block == FEWEST_ROWS and groups % 2 == 0 else (block, 1, 5)


@dataclass(frozen=True, slots=True)
class GpuPackedWeight:
    """A weight in tiles of OUTS rows and groups of GROUP columns; numbers have 4 or 8 bits.

    `arrived` counts, for each tile of a product, the programs that have finished; it is 0 between products."""

    shape: tuple[int, int]
    bits: int
    zero: int
    table: tuple[int, ...]
    parts: dict[str, Tensor] = field(repr=False)
    arrived: Tensor = field(repr=False)
    most_rows: int = 32
    rounding = 0.0

    def product(self, states: Tensor) -> Tensor:
        """Use our kernels for up to FEW_ROWS rows; for more rows, torch multiplies by dequantised tiles."""
        (rows, size), columns = states.shape, self.shape[0]
        if rows > FEW_ROWS:
            ids = torch.arange(columns, device=states.device)
            tiles = torch.split(ids, rows_of_tile(states.device, size))
            return torch.cat([F.linear(states, self._rows(each, states.dtype)) for each in tiles], -1)
        groups, per, _is_fine = self._layout
        splits = splits_of(columns, groups)
        block, unroll, stages = product_tile(rows, groups / splits, states.dtype, self.most_rows)
        adds = block == FEWEST_ROWS
        grid = (-(-rows // block), -(-columns // WIDTH), splits)
        out = states.new_empty((rows, columns))
        partial = out if splits == 1 else out.new_empty((*grid, block * WIDTH), dtype=torch.float32)
        packed_product_kernel[grid](
            states.contiguous(), *self._tensors(), out, partial, self.arrived, rows, columns, size, groups,
            -(-columns // OUTS), PER=per, EVEN=size % GROUP == 0, BLOCK=block, WIDTH=WIDTH, SPLITS=splits,
            ADDS=adds, UNROLL=unroll, num_warps=WIDTH // 32, num_stages=stages,
            **self._form(), **self._conversions(states.dtype),
        )  # fmt: skip
        if splits > 1 and not adds:
            packed_sum_kernel[(*grid[:2], WIDTH // SUMMED)](
                partial, out, rows, columns, SPLITS=splits, BLOCK=block, WIDTH=WIDTH, COLUMNS=SUMMED
            )
        return out

    def _conversions(self, dtype: torch.dtype) -> dict[str, str]:
        """Return PTX by name that converts numbers. For float32 and in Triton's interpreter, the texts are "", and
        Triton converts the numbers."""
        if is_interpreted() or dtype == torch.float32:
            return {"LOW": "", "HIGH": "", "ONE": ""}
        return conversions(self.bits, self.zero, self.table, dtype)

    def rows(self, ids: Tensor) -> Tensor:
        return self._rows(ids.flatten(), torch.float32).view(*ids.shape, self.shape[1])

    def _rows(self, ids: Tensor, dtype: torch.dtype) -> Tensor:
        out = torch.empty((len(ids), self.shape[1]), dtype=dtype, device=ids.device)
        groups, per, _is_fine = self._layout
        packed_rows_kernel[(len(ids), -(-groups // ROW_GROUPS))](
            ids, *self._tensors(), out, self.shape[1], groups, per, BLOCK=ROW_GROUPS, num_warps=1, **self._form()
        )  # fmt: skip
        return out

    def joined(self, others: Sequence[PackedWeight]) -> list[PackedWeight]:
        weights = [self, *cast(Sequence[GpuPackedWeight], others)]  # one device has one class of weights
        kinds = {(each.bits, each.zero, each.table, each.shape[1], each.form) for each in weights}
        if len(kinds) > 1 or any(each.shape[0] % OUTS for each in weights[:-1]):
            return []
        tiles = [-(-each.shape[0] // OUTS) for each in weights]
        own = {
            name: torch.cat([each.parts[name] for each in weights]) for name in self.parts if name != "table"
        }
        views = zip(*(part.split(tiles) for part in own.values()), strict=True)
        shape = (sum(each.shape[0] for each in weights), self.shape[1])
        whole = replace(
            self, shape=shape, parts=self.parts | own, arrived=counters(shape[0], self.arrived.device)
        )
        return [
            whole,
            *(
                replace(each, parts=self.parts | dict(zip(own, view, strict=True)))
                for each, view in zip(weights, views, strict=True)
            ),
        ]

    @property
    def form(self) -> tuple[tuple[str, torch.dtype, torch.Size], ...]:
        """The names, types and shapes of a tile's parts, which joined weights have in common."""
        return tuple((name, part.dtype, part.shape[1:]) for name, part in sorted(self.parts.items()))

    def _tensors(self) -> list[Tensor]:
        """Return the parts in the order of the kernels' arguments. The numbers replace missing parts."""
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
    zero = numbers.zero + 128 * (numbers.bits == 8)
    arrived = counters(shape[0], device)
    return GpuPackedWeight(shape, _width(numbers), zero, numbers.table, parts, arrived, most_rows(device))


def counters(columns: int, device: torch.device) -> Tensor:
    """Return a counter for each tile of a product with at most FEWEST_ROWS rows."""
    return torch.zeros(-(-columns // WIDTH), dtype=torch.int32, device=device)


def _width(numbers: Numbers) -> int:
    return 4 if numbers.bits <= 4 else 8


def _packed_numbers(numbers: Numbers) -> Tensor:
    """Pack numbers, as unsigned bytes, into tiles [tiles, groups, 1 or 2, OUTS, GROUP / 2]."""
    values = numbers.values.view(torch.uint8)
    values = values ^ 128 if numbers.bits == 8 else values
    whole = padded(values, GROUP, OUTS)
    halves = whole.reshape(-1, OUTS, whole.shape[1] // GROUP, 2, GROUP // 2).permute(0, 2, 3, 1, 4)
    if _width(numbers) == 4:
        return (halves[:, :, :1] | halves[:, :, 1:] << 4).contiguous()
    return halves.contiguous()
