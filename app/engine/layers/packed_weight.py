"""Packs a weight of integers and scales in the order in which the CPU's kernels read it (packed.h).

    weight = (number - zero) * factor * scale + offset_factor * offset

A group of neighbours in a row shares a scale and perhaps an offset. If several groups share both, each group or
each half of a group has factors (small integers). With a table, table[number] replaces (number - zero)."""

from collections.abc import Callable, Iterable, Sequence
from ctypes import Structure, byref, c_int32, c_int64, c_void_p
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from app.engine.cpu_kernels import packed_kernels
from app.engine.machine.huge_pages import HugePages

OUTS, GROUP = 16, 32
"""Rows of a tile, and columns of a group, as in packed.h."""
PLANES = {2: (2, 0), 3: (2, 1), 4: (4, 0), 5: (4, 1), 6: (4, 2), 8: (8, 0)}
"""Bits of a number -> its low bits and its high bits, which are stored separately."""
SLICE = 32
"""Each slice of a weight except the last has a multiple of this many rows: whole tiles on CPUs and on GPUs."""
NONE = torch.empty(0)


@dataclass(frozen=True, slots=True)
class Fields:
    """Some bits of a weight's numbers, as blocks [rows, blocks, bytes] store them.

    In a block, each run of `run` bytes has first the lowest `bits` bits of every byte, then the bits above."""

    blocks: Tensor
    bits: int
    run: int

    def values(self) -> Tensor:
        """Unpack the bits: a byte for each number [rows, size]."""
        rows, mask = len(self.blocks), (1 << self.bits) - 1
        if self.run % 8 or self.bits == 8:
            shifts = torch.arange(0, 8, self.bits, dtype=torch.uint8)[:, None]
            spread = self.blocks.reshape(rows, -1, 1, self.run) >> shifts
            return (spread & mask).flatten(1)
        # Unpacking eight bytes at a time takes a third of the time.
        words = self.blocks.reshape(-1, self.run).contiguous().view(torch.int64)
        spread = torch.cat(
            [words >> shift & 0x0101010101010101 * mask for shift in range(0, 8, self.bits)], 1
        )
        return spread.view(torch.uint8).view(rows, -1)


@dataclass(frozen=True, slots=True)
class Numbers:
    """Some rows of a weight: numbers [rows, size] as bytes (signed if they have 8 bits), and scales [rows, n].

    The numbers may also be packed: the lowest bits first, then the bits above. A scale applies to size / n
    neighbours, a factor (int8) to 32 or 16. Missing factors are 1, offsets are 0."""

    bits: int
    stored: Tensor | tuple[Fields, ...]
    scale: Tensor
    zero: int = 0
    factors: Tensor = NONE
    offset: Tensor = NONE
    offset_factors: Tensor = NONE
    table: tuple[int, ...] = ()

    @property
    def values(self) -> Tensor:
        if isinstance(self.stored, Tensor):
            return self.stored
        low, *rest = self.stored
        return sum((field.values() << low.bits for field in rest), low.values())

    @property
    def fields(self) -> tuple[Fields, ...]:
        """The packed numbers. Bytes become blocks of a group."""
        if not isinstance(self.stored, Tensor):
            return self.stored
        values = padded(self.stored.view(torch.uint8), GROUP, 1).contiguous()
        return (Fields(values.view(len(values), -1, GROUP), 8, GROUP),)


class PackedWeight(Protocol):
    """A weight [out, in] in the order in which a device's kernels read it."""

    @property
    def parts(self) -> dict[str, Tensor]:
        """The arrays that the kernels read."""

    @property
    def shape(self) -> tuple[int, int]: ...

    @property
    def rounding(self) -> float:
        """How much results may differ, because activations are rounded (`tolerance_of` in hardware.py)."""

    def product(self, states: Tensor) -> Tensor:
        """Multiply states [rows, in] by the weight transposed: [rows, out]."""

    def rows(self, ids: Tensor) -> Tensor:
        """Dequantise the rows with these ids [...]: [..., in] in float32."""

    def joined(self, others: "Sequence[PackedWeight]") -> "list[PackedWeight]":
        """Join the weight with other weights; return the joined weight, then each weight as a view of it.

        Returns [] if the weights cannot be joined."""


class CFields(Structure):
    """Mirrors the struct Fields in packed.h."""

    _fields_ = (
        ("bytes", c_void_p), ("row", c_int64), ("block", c_int64),
        ("width", c_int32), ("run", c_int32), ("bits", c_int32),
    )  # fmt: skip


class CPacked(Structure):
    """Mirrors the struct Packed in packed.h."""

    _fields_ = (
        *((name, c_void_p) for name in ("numbers", "factors", "offset_factors", "scale", "offset", "table")),
        ("bias", c_void_p),
        *((name, c_int64) for name in ("size", "outs", "groups")),
        *((name, c_int32) for name in ("low", "high", "zero", "per", "fine", "is_half")),
    )  # fmt: skip


@dataclass(frozen=True)
class CpuPackedWeight:
    """A weight in tiles of OUTS rows and groups of GROUP columns; `parts` are the arrays of packed.h.

    The kernels convert a row's activations to 8 bits; GROUP activations share a scale."""

    shape: tuple[int, int]
    bits: int
    zero: int
    parts: dict[str, Tensor] = field(repr=False)
    rounding = 0.6

    @cached_property
    def _described(self) -> Any:
        return byref(self.described())

    def described(self, bias: Tensor | None = None) -> CPacked:
        """Describe the weight for the kernels; its tensors and the bias must outlive the description."""
        outs, size = self.shape
        groups, per, is_fine = layout(self.shape, self.parts)
        addresses = {name: part.data_ptr() for name, part in self.parts.items()}
        low, high = PLANES[self.bits]
        return CPacked(
            **addresses, bias=None if bias is None else bias.data_ptr(), size=size, outs=outs, groups=groups,
            low=low, high=high, zero=self.zero, per=per, fine=is_fine,
            is_half=self.parts["scale"].dtype == torch.float16,
        )  # fmt: skip

    def product(self, states: Tensor) -> Tensor:
        """Multiply states [rows, in] by the weight transposed: [rows, out]. Raises ValueError for other types
        than float32."""
        states, rows = _floats(states), len(states)
        out, room = torch.empty((rows, self.shape[0])), self._room(rows)
        _library().packed_linear(
            self._described, states.data_ptr(), rows, room.data_ptr(), out.data_ptr(), torch.get_num_threads()
        )
        return out

    def products(self, states: Tensor, matrices: int, chosen: Tensor, rows: Tensor) -> Tensor:
        """Multiply by a stack of `matrices` matrices: row i of the result [n, out] is the product of row rows[i]
        of the states with matrix chosen[i]. Equal numbers in `chosen` [n] must be adjacent."""
        states, count, outs = _floats(states), len(chosen), self.shape[0] // matrices
        out, room = torch.empty((count, outs)), self._room(count)
        _library().packed_experts(
            self._described, chosen.data_ptr(), rows.data_ptr(), count, outs, states.data_ptr(),
            room.data_ptr(), out.data_ptr(), torch.get_num_threads(),
        )  # fmt: skip
        return out

    def _room(self, rows: int) -> Tensor:
        """Allocate temporary memory for this many quantised rows."""
        return torch.empty(rows * -(-self.shape[1] // GROUP) * (GROUP // 4 + 3))

    def rows(self, ids: Tensor) -> Tensor:
        out, ids = torch.empty((*ids.shape, self.shape[1])), ids.contiguous()
        _library().packed_rows(self._described, ids.data_ptr(), ids.numel(), out.data_ptr())
        return out

    def joined(self, others: Sequence[PackedWeight]) -> list[PackedWeight]:
        """Return []. Weights need not be joined here, because the kernel of a whole layer takes several weights."""
        del others
        return []


def gated_experts(
    stacks: Sequence[CpuPackedWeight],
    experts: int,
    states: Tensor,
    chosen: Tensor,
    shares: Tensor,
    is_gelu: bool,
) -> Tensor:
    """Add up the results [rows, size] of the experts `chosen` [rows, k], times `shares` [rows, k].

    An expert computes down(activation(gate(x)) * up(x)); the activation is SiLU or the tanh approximation of GELU.
    `stacks` are the stack of gate and up, and the stack of down."""
    up, down = stacks
    states, chosen, shares = _floats(states), chosen.long().contiguous(), _floats(shares)
    count, wide = chosen.numel(), up.shape[0] // experts
    bytes_room = max(len(one._room(count)) for one in stacks)
    room = torch.empty(count * (wide + wide // 2 + up.shape[1]) + bytes_room)
    out, sorted_room = torch.empty_like(states), torch.empty(2 * count, dtype=torch.int64)
    _library().gated_experts(
        up._described, down._described, experts, chosen.data_ptr(), shares.data_ptr(), len(states),
        chosen.shape[1], is_gelu, states.data_ptr(), sorted_room.data_ptr(), room.data_ptr(), out.data_ptr(),
        torch.get_num_threads(),
    )  # fmt: skip
    return out


def _floats(states: Tensor) -> Tensor:
    """Return the states, contiguous. Raises ValueError unless all are float32."""
    if states.dtype != torch.float32:
        raise ValueError(f"this kernel takes float32; the states are {states.dtype}")
    return states.contiguous()


class CpuPacker:
    """Packs the weights of a model for the CPU."""

    def __init__(self) -> None:
        self._memory = HugePages()

    def __call__(self, shape: tuple[int, int], slices: Iterable[Numbers]) -> CpuPackedWeight:
        """Pack slices of a weight's rows, in order; all slices but the last must consist of whole tiles."""
        numbers, parts = joined_parts(-(-shape[0] // OUTS), slices, _packed, self._memory)
        return CpuPackedWeight(shape, numbers.bits, numbers.zero, parts)


def layout(shape: tuple[int, int], parts: dict[str, Tensor]) -> tuple[int, int, bool]:
    """Return how many groups a row has, how many of them share a scale, and whether factors are for half groups."""
    groups = -(-shape[1] // GROUP)
    factors = parts.get("factors", parts.get("offset_factors"))
    return groups, groups // parts["scale"].shape[1], factors is not None and factors.shape[1] > groups


def joined_parts(
    tiles: int,
    slices: Iterable[Numbers],
    packed: Callable[[Numbers], dict[str, Tensor]],
    memory: HugePages | None = None,
) -> tuple[Numbers, dict[str, Tensor]]:
    """Pack slices into arrays [tiles, ...]; return the last slice, and the arrays with its table, if any.

    The arrays are allocated in `memory`; without it, on the device of the packed slices."""
    parts: dict[str, Tensor] = {}
    done, numbers = 0, None
    for numbers in slices:
        found = packed(numbers)
        for name, part in found.items():
            if name not in parts:
                shape = (tiles, *part.shape[1:])
                parts[name] = memory.empty(shape, part.dtype) if memory else part.new_empty(shape)
            parts[name][done : done + len(part)] = part
        done += len(found["numbers"])
    assert numbers is not None
    if numbers.table:
        parts["table"] = torch.tensor(numbers.table, dtype=torch.int8, device=parts["numbers"].device)
    return numbers, parts


def _packed(numbers: Numbers) -> dict[str, Tensor]:
    """Return the arrays of packed.h, whose first dimension is the tile."""
    fields = numbers.fields
    rows, blocks, width = fields[0].blocks.shape
    low, high = PLANES[numbers.bits]
    groups = blocks * width * 8 // fields[0].bits // GROUP
    planes = torch.empty((-(-rows // OUTS), groups, OUTS * GROUP // 8 * (low + high)), dtype=torch.uint8)
    described = (CFields * len(fields))(
        *(
            CFields(one.blocks.data_ptr(), *one.blocks.stride()[:2], one.blocks.shape[2], one.run, one.bits)
            for one in fields
        )
    )
    _library().pack_tiles(described, len(fields), rows, blocks, low, high, planes.data_ptr())
    return {"numbers": planes} | tiled_scales(numbers, OUTS)


def tiled_scales(numbers: Numbers, outs: int) -> dict[str, Tensor]:
    """Return the existing scales, offsets and factors in tiles [tiles, groups, outs]."""
    names = ("scale", "factors", "offset", "offset_factors")
    given = {name: part for name in names if (part := getattr(numbers, name)).numel()}
    whole = {name: padded(part, 1, outs) for name, part in given.items()}
    return {
        name: part.reshape(-1, outs, part.shape[1]).transpose(1, 2).contiguous()
        for name, part in whole.items()
    }


def padded(values: Tensor, columns: int, rows: int) -> Tensor:
    """Add zeros, so that both sizes are multiples of these; return `values` themselves if they already are."""
    missing = -values.shape[1] % columns, -len(values) % rows
    # `F.pad` would copy them even if nothing is missing.
    return F.pad(values, (0, missing[0], 0, missing[1])) if any(missing) else values


def _library() -> Any:
    library = packed_kernels()
    assert library is not None, "packed weights need the CPU's kernels"
    return library
