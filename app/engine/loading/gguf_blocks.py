"""Reads the blocks of a GGUF file's quantised tensors as integers and scales, without loss.

Each reader takes blocks [n, bytes] and returns the numbers of each block in their order in the row."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from app.engine.layers.packed_weight import NONE, Numbers
from app.values.gguf_header import BLOCKS

IQ4_TABLE = (-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113)
MXFP4_TABLE = (0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12)
"""The doubled values of 4-bit floats."""

Read = Callable[[Tensor], Numbers]


def _half(blocks: Tensor) -> Tensor:
    return blocks.contiguous().view(torch.float16)


def _fields(packed: Tensor, bits: int, run: int) -> Tensor:
    """Unpack numbers of `bits` bits from runs of `run` bytes: first each byte's lowest bits, then the bits
    above."""
    if run % 8:
        shifts = torch.arange(0, 8, bits, dtype=torch.uint8)[:, None]
        spread = packed.reshape(len(packed), -1, 1, run) >> shifts
        return (spread & (1 << bits) - 1).flatten(1)
    # Unpacking eight bytes at a time takes a third of the time.
    words = packed.reshape(-1, run).contiguous().view(torch.int64)
    mask = 0x0101010101010101 * ((1 << bits) - 1)
    fields = torch.cat([words >> shift & mask for shift in range(0, 8, bits)], 1)
    return fields.view(torch.uint8).view(len(packed), -1)


def _plain(
    blocks: Tensor, bits: int = 4, zero: int = 0, has_offset: bool = False, table: tuple[int, ...] = ()
) -> Numbers:
    """Read blocks of a scale and the numbers' lower four bits. Some types also have an offset, or fifth bits."""
    offset = _half(blocks[:, 2:4]) if has_offset else NONE
    values = _fields(blocks[:, -16:], 4, 16)
    if bits == 5:
        values |= _fields(blocks[:, -20:-16], 1, 1) << 4
    return Numbers(bits, values, _half(blocks[:, :2]), zero, offset=offset, table=table)


def _q8_0(blocks: Tensor) -> Numbers:
    return Numbers(8, blocks[:, 2:], _half(blocks[:, :2]))


def _q2_k(blocks: Tensor) -> Numbers:
    factors, values, scale, offset = torch.split(blocks, [16, 64, 2, 2], 1)
    return Numbers(
        2, _fields(values, 2, 32), _half(scale), factors=factors & 15, offset=-_half(offset),
        offset_factors=factors >> 4,
    )  # fmt: skip


def _q3_k(blocks: Tensor) -> Numbers:
    high, low, packed, scale = torch.split(blocks, [32, 64, 12, 2], 1)
    factors = _fields(packed[:, :8], 4, 8) | _fields(packed[:, 8:], 2, 4) << 4
    values = _fields(low, 2, 32) | _fields(high, 1, 32) << 2
    return Numbers(3, values, _half(scale), zero=4, factors=factors.view(torch.int8) - 32)


def _with_offset_factors(blocks: Tensor, bits: int) -> Numbers:
    """Read blocks that pack eight factors of scales and eight factors of offsets, of 6 bits each, in 12 bytes."""
    scale, offset, packed, high, low = torch.split(blocks, [2, 2, 12, 32 * (bits - 4), 128], 1)
    values = _fields(low, 4, 32)
    if bits == 5:
        values |= _fields(high, 1, 32) << 4
    first, second, rest = torch.split(packed, 4, 1)
    factors = torch.cat((first & 63, rest & 15 | first >> 2 & 48), 1)
    offset_factors = torch.cat((second & 63, rest >> 4 | second >> 2 & 48), 1)
    return Numbers(
        bits, values, _half(scale), factors=factors, offset=-_half(offset), offset_factors=offset_factors
    )


def _q6_k(blocks: Tensor) -> Numbers:
    low, high, factors, scale = torch.split(blocks, [128, 64, 16, 2], 1)
    values = _fields(low, 4, 64) | _fields(high, 2, 32) << 4
    return Numbers(6, values, _half(scale), zero=32, factors=factors)


def _iq4_xs(blocks: Tensor) -> Numbers:
    scale, high, low, values = torch.split(blocks, [2, 2, 4, 128], 1)
    factors = (_fields(low, 4, 1) | _fields(high, 2, 1) << 4).view(torch.int8) - 32
    return Numbers(4, _fields(values, 4, 16), _half(scale), factors=factors, table=IQ4_TABLE)


def _mxfp4(blocks: Tensor) -> Numbers:
    return Numbers(4, _fields(blocks[:, 1:], 4, 16), _power_of_two(blocks[:, :1]), table=MXFP4_TABLE)


def _power_of_two(exponents: Tensor) -> Tensor:
    """Return half of 2 ** (exponent - 127) in float32, because MXFP4_TABLE has doubled values."""
    whole = exponents.int()
    return torch.where(whole < 2, 0x200000 << whole.clamp(max=1), whole - 1 << 23).view(torch.float32)


def mxfp4_rows(blocks: Tensor, exponents: Tensor) -> Numbers:
    """Return the numbers of rows in gpt-oss's format: blocks [rows, groups, 16] with two neighbours in a byte, and
    the exponents [rows, groups] of their scales."""
    values = _fields(blocks.reshape(-1, 16), 4, 1).reshape(len(blocks), -1)
    return Numbers(4, values, _power_of_two(exponents), table=MXFP4_TABLE)


def _tq2_0(blocks: Tensor) -> Numbers:
    return Numbers(2, _fields(blocks[:, :64], 2, 32), _half(blocks[:, 64:]), zero=1)


def _tq1_0(blocks: Tensor) -> Numbers:
    """Unpack base-three digits: five from each of the first 48 bytes, four from each of the next four."""
    scale, powers = _half(blocks[:, 52:]), torch.tensor([[1], [3], [9], [27], [81]], dtype=torch.uint8)
    runs = ((blocks[:, :32], powers), (blocks[:, 32:48], powers), (blocks[:, 48:52], powers[:4]))
    digits = torch.cat([(run[:, None] * by).flatten(1) for run, by in runs], 1)
    return Numbers(2, (digits.short() * 3 >> 8).byte(), scale, zero=1)


READERS: Mapping[str, Read] = {
    "Q4_0": partial(_plain, zero=8), "Q4_1": partial(_plain, has_offset=True),
    "Q5_0": partial(_plain, bits=5, zero=16), "Q5_1": partial(_plain, bits=5, has_offset=True), "Q8_0": _q8_0,
    "Q2_K": _q2_k, "Q3_K": _q3_k, "Q4_K": partial(_with_offset_factors, bits=4),
    "Q5_K": partial(_with_offset_factors, bits=5), "Q6_K": _q6_k, "IQ4_NL": partial(_plain, table=IQ4_TABLE),
    "IQ4_XS": _iq4_xs, "MXFP4": _mxfp4, "TQ1_0": _tq1_0, "TQ2_0": _tq2_0,
}  # fmt: skip
"""The readers by the types of blocks that can stay packed."""

BYTES = {name: size for name, _numbers, size in BLOCKS.values()}


def read_blocks(stored: str, rows: Tensor) -> Numbers:
    """Read rows [n, bytes] of blocks of this type. The numbers, scales and factors have n rows, too."""
    found = READERS[stored](rows.reshape(-1, BYTES[stored]))
    names = ("values", "scale", "factors", "offset", "offset_factors")
    by_row = {name: part.reshape(len(rows), -1) for name in names if (part := getattr(found, name)).numel()}
    return replace(found, **by_row)
