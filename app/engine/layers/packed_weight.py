"""A weight as whole numbers and scales, kept in the order in which the CPU's kernels read them (packed.h).

    weight = (number - zero) * factor * scale + offset_factor * offset

A group of neighbours in a row shares a scale, and in some formats an offset. In other formats, several groups
share both, and each multiplies them by a small integer. Some formats have a table of the numbers' values.
"""

from collections.abc import Iterable
from ctypes import Structure, byref, c_int32, c_int64, c_void_p
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from app.engine.cpu_kernels import packed_kernels

OUTS, GROUP = 16, 32
"""Rows of a tile, and columns of a group, as in packed.h."""
PLANES = {2: (2, 0), 3: (2, 1), 4: (4, 0), 5: (4, 1), 6: (4, 2), 8: (8, 0)}
"""Bits of a number -> its low bits and its high bits, which are stored apart."""
NONE = torch.empty(0)


@dataclass(frozen=True, slots=True)
class Numbers:
    """Some rows of a weight: numbers [rows, size] as bytes (signed if they have 8 bits); scales [rows, groups].

    Factors [rows, size / 32] or [rows, size / 16] have the type int8. Without factors all are 1."""

    bits: int
    values: Tensor
    scale: Tensor
    zero: int = 0
    factors: Tensor = NONE
    offset: Tensor = NONE
    offset_factors: Tensor = NONE
    table: tuple[int, ...] = ()


class CPacked(Structure):
    """Mirrors the struct Packed in packed.h."""

    _fields_ = (
        *((name, c_void_p) for name in ("numbers", "factors", "offset_factors", "scale", "offset", "table")),
        ("bias", c_void_p),
        *((name, c_int64) for name in ("size", "outs", "groups")),
        *((name, c_int32) for name in ("low", "high", "zero", "per", "fine", "is_half")),
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class PackedWeight:
    """A weight [out, in] in tiles of OUTS rows and groups of GROUP columns; `parts` has the arrays of packed.h."""

    shape: tuple[int, int]
    bits: int
    zero: int
    parts: dict[str, Tensor] = field(repr=False)

    @property
    def nbytes(self) -> int:
        return sum(part.nbytes for part in self.parts.values())

    def described(self, bias: Tensor | None = None) -> CPacked:
        """Describe the weight for the kernels; its tensors and the bias must outlive the description."""
        outs, size = self.shape
        groups, scale = -(-size // GROUP), self.parts["scale"]
        addresses = {name: part.data_ptr() for name, part in self.parts.items()}
        factors = self.parts.get("factors", self.parts.get("offset_factors"))
        low, high = PLANES[self.bits]
        return CPacked(
            **addresses, bias=None if bias is None else bias.data_ptr(), size=size, outs=outs, groups=groups,
            low=low, high=high, zero=self.zero, per=groups // scale.shape[1],
            fine=factors is not None and factors.shape[1] > groups, is_half=scale.dtype == torch.float16,
        )  # fmt: skip

    def rows(self, ids: Tensor) -> Tensor:
        """Dequantise the rows with these ids [...]: [..., in] in float32."""
        out, ids = torch.empty((*ids.shape, self.shape[1])), ids.contiguous()
        _library().packed_rows(byref(self.described()), ids.data_ptr(), ids.numel(), out.data_ptr())
        return out

    def dense(self) -> Tensor:
        """Dequantise the weight: [out, in] in float32."""
        return self.rows(torch.arange(self.shape[0]))


def pack(shape: tuple[int, int], slices: Iterable[Numbers]) -> PackedWeight:
    """Pack slices of a weight's rows, in order; all slices but the last must consist of whole tiles."""
    parts: dict[str, Tensor] = {}
    done, tiles = 0, -(-shape[0] // OUTS)
    numbers = None
    for numbers in slices:
        packed = _packed(numbers)
        for name, part in packed.items():
            if name not in parts:
                parts[name] = part.new_empty((tiles, *part.shape[1:]))
            parts[name][done : done + len(part)] = part
        done += len(packed["numbers"])
    assert numbers is not None
    if numbers.table:
        parts["table"] = torch.tensor(numbers.table, dtype=torch.int8)
    return PackedWeight(shape, numbers.bits, numbers.zero, parts)


def _packed(numbers: Numbers) -> dict[str, Tensor]:
    """Return the arrays of packed.h, which begin with the tiles."""
    values = F.pad(numbers.values.view(torch.uint8), (0, -numbers.values.shape[1] % GROUP))
    values = F.pad(values, (0, 0, 0, -len(values) % OUTS)).contiguous()
    low, high = PLANES[numbers.bits]
    tiles, size = len(values) // OUTS, values.shape[1]
    planes = torch.empty((tiles, size // GROUP, OUTS * GROUP // 8 * (low + high)), dtype=torch.uint8)
    _library().pack_tiles(
        values.data_ptr(), tiles, size, low, high, planes.data_ptr(), torch.get_num_threads()
    )
    given: dict[str, Any] = {
        name: getattr(numbers, name) for name in ("scale", "factors", "offset", "offset_factors")
    }
    return {"numbers": planes} | {name: _tiled(part) for name, part in given.items() if part.numel()}


def _tiled(part: Tensor) -> Tensor:
    """Turn [rows, groups] into tiles [tiles, groups, OUTS]."""
    whole = F.pad(part, (0, 0, 0, -len(part) % OUTS))
    return whole.view(-1, OUTS, whole.shape[1]).transpose(1, 2).contiguous()


def _library() -> Any:
    library = packed_kernels()
    assert library is not None, "packed weights need the CPU's kernels"
    return library
