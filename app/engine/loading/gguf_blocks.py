"""Reads the blocks of a GGUF file's quantised tensors as integers and scales, without loss.

Each reader takes blocks [n, bytes] and returns the numbers of each block in their order in the row."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache, partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from app.engine.layers.packed_weight import NONE, Fields, Numbers
from app.values.gguf_header import BLOCKS

IQ4_TABLE = (-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113)
MXFP4_TABLE = (0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12)
"""The doubled values of 4-bit floats."""
IQ1_TABLE = (-7, 1, 9, 0, -9, -1, 7, *[0] * 9)
"""Eight times -1, 0 and 1, first plus 1, then minus 1."""
IQ2_TABLE = (8, 25, 43, 0, -8, -25, -43, *[0] * 9)
IQ3_XXS_TABLE = (4, 12, 20, 28, 36, 44, 52, 62, -4, -12, -20, -28, -36, -44, -52, -62)
IQ3_S_TABLE = (1, 3, 5, 7, 9, 11, 13, 15, -1, -3, -5, -7, -9, -11, -13, -15)

Read = Callable[[Tensor], Numbers]


def _half(blocks: Tensor) -> Tensor:
    return blocks.view(torch.float16)


def _fields(packed: Tensor, bits: int, run: int) -> Fields:
    return Fields(packed[:, None], bits, run)


def _unpacked(packed: Tensor, bits: int, run: int) -> Tensor:
    return _fields(packed, bits, run).values()


def _plain(
    blocks: Tensor, bits: int = 4, zero: int = 0, has_offset: bool = False, table: tuple[int, ...] = ()
) -> Numbers:
    """Read blocks of a scale and the numbers' lower four bits. Some types also have an offset, or fifth bits."""
    offset = _half(blocks[:, 2:4]) if has_offset else NONE
    low, high = _fields(blocks[:, -16:], 4, 16), _fields(blocks[:, -20:-16], 1, 1)
    fields = (low, high) if bits == 5 else (low,)
    return Numbers(bits, fields, _half(blocks[:, :2]), zero, offset=offset, table=table)


def _q8_0(blocks: Tensor) -> Numbers:
    return Numbers(8, (_fields(blocks[:, 2:], 8, 32),), _half(blocks[:, :2]))


def _q2_k(blocks: Tensor) -> Numbers:
    factors, values, scale, offset = torch.split(blocks, [16, 64, 2, 2], 1)
    return Numbers(
        2, (_fields(values, 2, 32),), _half(scale), factors=factors & 15, offset=-_half(offset),
        offset_factors=factors >> 4,
    )  # fmt: skip


def _q3_k(blocks: Tensor) -> Numbers:
    high, low, packed, scale = torch.split(blocks, [32, 64, 12, 2], 1)
    factors = _unpacked(packed[:, :8], 4, 8) | _unpacked(packed[:, 8:], 2, 4) << 4
    fields = _fields(low, 2, 32), _fields(high, 1, 32)
    return Numbers(3, fields, _half(scale), zero=4, factors=factors.view(torch.int8) - 32)


def _with_offset_factors(blocks: Tensor, bits: int) -> Numbers:
    """Read blocks that pack eight factors of scales and eight factors of offsets, of 6 bits each, in 12 bytes."""
    scale, offset, packed, high, low = torch.split(blocks, [2, 2, 12, 32 * (bits - 4), 128], 1)
    fields = (_fields(low, 4, 32), _fields(high, 1, 32)) if bits == 5 else (_fields(low, 4, 32),)
    first, second, rest = torch.split(packed, 4, 1)
    factors = torch.cat((first & 63, rest & 15 | first >> 2 & 48), 1)
    offset_factors = torch.cat((second & 63, rest >> 4 | second >> 2 & 48), 1)
    return Numbers(
        bits, fields, _half(scale), factors=factors, offset=-_half(offset), offset_factors=offset_factors
    )


def _q6_k(blocks: Tensor) -> Numbers:
    low, high, factors, scale = torch.split(blocks, [128, 64, 16, 2], 1)
    fields = _fields(low, 4, 64), _fields(high, 2, 32)
    return Numbers(6, fields, _half(scale), zero=32, factors=factors)


def _iq4_xs(blocks: Tensor) -> Numbers:
    scale, high, low, values = torch.split(blocks, [2, 2, 4, 128], 1)
    factors = (_unpacked(low, 4, 1) | _unpacked(high, 2, 1) << 4).view(torch.int8) - 32
    return Numbers(4, (_fields(values, 4, 16),), _half(scale), factors=factors, table=IQ4_TABLE)


def _mxfp4(blocks: Tensor) -> Numbers:
    return Numbers(4, (_fields(blocks[:, 1:], 4, 16),), _power_of_two(blocks[:, :1]), table=MXFP4_TABLE)


def _power_of_two(exponents: Tensor) -> Tensor:
    """Return half of 2 ** (exponent - 127) in float32, because MXFP4_TABLE has doubled values."""
    whole = exponents.int()
    return torch.where(whole < 2, 0x200000 << whole.clamp(max=1), whole - 1 << 23).view(torch.float32)


def mxfp4_rows(blocks: Tensor, exponents: Tensor) -> Numbers:
    """Return the numbers of rows in gpt-oss's format: blocks [rows, groups, 16] with two neighbours in a byte, and
    the exponents [rows, groups] of their scales."""
    return Numbers(4, (Fields(blocks, 4, 1),), _power_of_two(exponents), table=MXFP4_TABLE)


def _tq2_0(blocks: Tensor) -> Numbers:
    return Numbers(2, (_fields(blocks[:, :64], 2, 32),), _half(blocks[:, 64:]), zero=1)


def _tq1_0(blocks: Tensor) -> Numbers:
    """Unpack base-three digits: five from each of the first 48 bytes, four from each of the next four."""
    scale, powers = _half(blocks[:, 52:]), torch.tensor([[1], [3], [9], [27], [81]], dtype=torch.uint8)
    runs = ((blocks[:, :32], powers), (blocks[:, 32:48], powers), (blocks[:, 48:52], powers[:4]))
    digits = torch.cat([(run[:, None] * by).flatten(1) for run, by in runs], 1)
    return Numbers(2, (digits.short() * 3 >> 8).byte(), scale, zero=1)


@cache
def _grid(stored: str) -> Tensor:
    """Return the grid of a type IQ1 to IQ3: words of 4 or 8 bytes, which are places in the type's table."""
    from gguf import quants  # gguf is not on every GPU machine

    kind = getattr(quants, stored)
    kind.init_grid()
    places = np.searchsorted(kind.grid_map, kind.grid).astype(np.uint8)
    return torch.from_numpy(places.view(f"i{places.shape[-1]}").flatten())


@cache
def _sign_words(bit: int, has_parity: bool) -> Tensor:
    """Return, for each byte of signs, a word with this bit set in the bytes of the negative numbers.

    With `has_parity`, the byte's highest bit is replaced by the parity of the other bits."""
    numbers = torch.arange(256)
    bits = numbers[:, None] >> torch.arange(8) & 1
    if has_parity:
        bits[:, 7] = bits[:, :7].sum(1) & 1
    return (bits << bit).byte().view(torch.int64).flatten()


def _from_grid(stored: str, entries: Tensor, signs: Tensor, has_parity: bool = False) -> Tensor:
    """Return places in the type's table for entries of its grid; `signs` have a bit for each number."""
    bit = 3 if stored.startswith("IQ3") else 2
    words = _grid(stored)[entries.int()].view(torch.int64) | _sign_words(bit, has_parity)[signs.int()]
    return words.view(torch.uint8)


def _shorts(packed: Tensor) -> Tensor:
    return packed.contiguous().view(torch.int16).int() & 0xFFFF


def _odd(factors: Tensor) -> Tensor:
    return 2 * factors + 1


def _signs_and_factors(packed: Tensor) -> tuple[Tensor, Tensor]:
    """Unpack words of four fields of 7 bits, which are signs, and a factor of 4 bits above."""
    words = packed.contiguous().view(torch.int32)[:, :, None]
    signs = (words >> torch.tensor([0, 7, 14, 21])).byte() & 127
    return signs.flatten(1), _odd(packed[:, 3::4] >> 4)


def _iq2_xxs(blocks: Tensor) -> Numbers:
    pairs = blocks[:, 2:].reshape(len(blocks), 8, 2, 4)
    signs, factors = _signs_and_factors(pairs[:, :, 1].flatten(1))
    values = _from_grid("IQ2_XXS", pairs[:, :, 0].flatten(1), signs, has_parity=True)
    return Numbers(3, values, _half(blocks[:, :2]).float() / 8, factors=factors, table=IQ2_TABLE)


def _iq2_xs(blocks: Tensor) -> Numbers:
    scale, packed, factors = torch.split(blocks, [2, 64, 8], 1)
    both = _shorts(packed)
    values = _from_grid("IQ2_XS", both & 511, both >> 9, has_parity=True)
    factors = _odd(_unpacked(factors, 4, 1))
    return Numbers(3, values, _half(scale).float() / 8, factors=factors, table=IQ2_TABLE)


def _iq2_s(blocks: Tensor) -> Numbers:
    scale, low, signs, high, factors = torch.split(blocks, [2, 32, 32, 8, 8], 1)
    values = _from_grid("IQ2_S", low.int() | _unpacked(high, 2, 1).int() << 8, signs)
    factors = _odd(_unpacked(factors, 4, 1))
    return Numbers(3, values, _half(scale).float() / 8, factors=factors, table=IQ2_TABLE)


def _iq3_xxs(blocks: Tensor) -> Numbers:
    signs, factors = _signs_and_factors(blocks[:, 66:])
    values = _from_grid("IQ3_XXS", blocks[:, 2:66], signs, has_parity=True)
    return Numbers(4, values, _half(blocks[:, :2]).float() / 4, factors=factors, table=IQ3_XXS_TABLE)


def _iq3_s(blocks: Tensor) -> Numbers:
    scale, low, high, signs, factors = torch.split(blocks, [2, 64, 8, 32, 4], 1)
    values = _from_grid("IQ3_S", low.int() | _unpacked(high, 1, 1).int() << 8, signs)
    return Numbers(4, values, _half(scale), factors=_odd(_unpacked(factors, 4, 1)), table=IQ3_S_TABLE)


def _iq1_s(blocks: Tensor) -> Numbers:
    scale, low, high = torch.split(blocks, [2, 32, 16], 1)
    words = _shorts(high)
    entries = low.int() | (words[:, :, None] >> torch.tensor([0, 3, 6, 9]) & 7).flatten(1) << 8
    signs = ((words >> 15) * 255).repeat_interleave(4, 1)
    factors = _odd(words >> 12 & 7).byte()
    values = _from_grid("IQ1_S", entries, signs)
    return Numbers(3, values, _half(scale).float() / 8, factors=factors, table=IQ1_TABLE)


def _iq1_m(blocks: Tensor) -> Numbers:
    """Unpack the only type whose scale is stored in pieces: in the highest four bits of four words of factors."""
    low, high, packed = torch.split(blocks, [32, 16, 8], 1)
    words, nibbles = _shorts(packed), _unpacked(high, 4, 1).int()
    scale = (words >> 12 << torch.tensor([0, 4, 8, 12])).sum(1, keepdim=True).short().view(torch.float16)
    factors = _odd(words[:, :, None] >> torch.tensor([0, 3, 6, 9]) & 7).flatten(1).byte()
    values = _from_grid("IQ1_M", low.int() | (nibbles & 7) << 8, (nibbles >> 3) * 255)
    return Numbers(3, values, scale.float() / 8, factors=factors, table=IQ1_TABLE)


READERS: Mapping[str, Read] = {
    "Q4_0": partial(_plain, zero=8), "Q4_1": partial(_plain, has_offset=True),
    "Q5_0": partial(_plain, bits=5, zero=16), "Q5_1": partial(_plain, bits=5, has_offset=True), "Q8_0": _q8_0,
    "Q2_K": _q2_k, "Q3_K": _q3_k, "Q4_K": partial(_with_offset_factors, bits=4),
    "Q5_K": partial(_with_offset_factors, bits=5), "Q6_K": _q6_k, "IQ4_NL": partial(_plain, table=IQ4_TABLE),
    "IQ4_XS": _iq4_xs, "IQ3_S": _iq3_s, "IQ3_XXS": _iq3_xxs, "IQ2_S": _iq2_s, "IQ2_XS": _iq2_xs,
    "IQ2_XXS": _iq2_xxs, "IQ1_M": _iq1_m, "IQ1_S": _iq1_s, "MXFP4": _mxfp4, "TQ1_0": _tq1_0, "TQ2_0": _tq2_0,
}  # fmt: skip
"""The readers by the types of blocks that can stay packed."""

BYTES = {name: size for name, _numbers, size in BLOCKS.values()}


def read_blocks(stored: str, rows: Tensor) -> Numbers:
    """Read rows [n, bytes] of blocks of this type. The numbers, scales and factors have n rows, too."""
    found = READERS[stored](rows.reshape(-1, BYTES[stored]))
    names = ("scale", "factors", "offset", "offset_factors")
    by_row: dict[str, Any] = {
        name: part.reshape(len(rows), -1) for name in names if (part := getattr(found, name)).numel()
    }
    if isinstance(found.stored, Tensor):
        by_row["stored"] = found.stored.reshape(len(rows), -1)
    else:
        by_row["stored"] = tuple(
            replace(field, blocks=field.blocks.reshape(len(rows), -1, field.blocks.shape[2]))
            for field in found.stored
        )
    return replace(found, **by_row)
