"""Linears and embeddings with weights of 8 or 4 bits, and the kernels that multiply by them.

    weight = (number - zero) * scale        scale and zero shared by a group of neighbours in a row

torch has kernels that read such weights directly, each for one device and type. Elsewhere the weight is spread out
again a tile of rows at a time, small enough to stay in the cache: memory sees the whole numbers alone, and one
dense tile. Every kernel makes the same product of the same numbers, up to rounding.

On a CPU in bfloat16, Linear(2048 -> 5632), one thread:

    rows                                      1      4      8     16     64
    packed bfloat16 (packing.py)            0.7    0.8    1.3    2.0    6.9 ms
    torch's int8 kernel, row after row      0.6    1.3    2.3    4.7   18.6 ms
    tiles spread out                        3.1    3.3    3.6    4.6   10.1 ms

So few rows take the kernel, whose rows do not depend on each other, and many take the tiles. On a card int8 has our
own kernel (`int8_linear_triton.py`) and int4 torch's; a card without a kernel refuses the quantisation.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

TILE = {"cpu": 2**19, "cuda": 2**23}
"""How many weights are spread out at a time."""

FEW_ROWS = 16
"""Up to this many rows torch's int8 kernel for CPUs is faster than tiles."""


@dataclass(frozen=True, slots=True)
class QuantisedWeight:
    """A weight as whole numbers [out, in] (int8), with scale and zero [out, groups] (float32)."""

    values: Tensor
    scale: Tensor
    zero: Tensor

    @property
    def group(self) -> int:
        """How many neighbours share a scale."""
        return self.values.shape[1] // self.scale.shape[1]

    def dense(self) -> Tensor:
        """The weight [out, in] in float32."""
        spread = self.values.float().view(*self.scale.shape, self.group)
        return ((spread - self.zero[..., None]) * self.scale[..., None]).flatten(1)


class QuantisedLinear(nn.Module):
    """A Linear over whole numbers. Subclasses keep them as their kernel reads them, as buffers."""

    bits: int
    multiples = (1, 1)
    """What the kernel needs the numbers of outputs and of inputs to be multiples of."""
    scale: Tensor

    def __init__(self, numbers: QuantisedWeight, bias: Tensor | None, dtype: torch.dtype) -> None:
        super().__init__()
        self.out_features, self.in_features = numbers.values.shape
        self.bias = bias
        self._keep(numbers, dtype)

    def _keep(self, numbers: QuantisedWeight, dtype: torch.dtype) -> None:
        """Register the buffers that the kernel reads; scales have the activations' dtype."""
        raise NotImplementedError

    @classmethod
    def fits(cls, out_features: int, in_features: int) -> bool:
        """Whether the kernel takes this shape."""
        return out_features % cls.multiples[0] == 0 and in_features % cls.multiples[1] == 0

    @property
    def weight(self) -> Tensor:
        """The weight [out, in] spread out, for code that wants more than the product."""
        return self.multiply(torch.eye(self.in_features, out=self.scale.new_empty(0))).t()

    def multiply(self, states: Tensor) -> Tensor:
        """[rows, in] to [rows, out], without the bias."""
        raise NotImplementedError

    def forward(self, states: Tensor) -> Tensor:
        """[..., in] to [..., out]."""
        shape = states.shape[:-1]
        rows = states.reshape(-1, self.in_features)
        product = self.multiply(rows) if len(rows) else rows.new_empty(0, self.out_features)
        if self.bias is not None:
            product = product + self.bias
        return product.view(*shape, self.out_features)

    def tied(self, table: "QuantisedEmbedding") -> "QuantisedEmbedding":
        """The table that shares its numbers with this head."""
        return table


class _TiledLinear(QuantisedLinear):
    """Spread out tile by tile: on any device, in any type of activations."""

    def _slices(self, *tensors: Tensor) -> Iterator[tuple[Tensor, ...]]:
        """The rows that make one tile, of each tensor."""
        rows = max(1, TILE[self.scale.device.type] // self.in_features)
        return zip(*(torch.split(tensor, rows) for tensor in tensors), strict=True)


class TiledInt8Linear(_TiledLinear):
    """Eight bits, one scale for each row: it can wait until the product is there."""

    bits = 8
    values: Tensor

    def _keep(self, numbers: QuantisedWeight, dtype: torch.dtype) -> None:
        self.register_buffer("values", numbers.values)
        self.register_buffer("scale", numbers.scale.to(dtype))

    def multiply(self, states: Tensor) -> Tensor:
        """Multiply tile by tile."""
        # Divided by a power of two: whole numbers up to 127 would leave float16's range. That costs no digit but
        # of states below 0.008 in float16, which have fewer from there on, by up to 4e-6 each.
        small = states / 128
        tiles = [F.linear(small, values.to(states.dtype)) for (values,) in self._slices(self.values)]
        return torch.cat(tiles, -1).mul_(self.scale.view(-1) * 128)


class TiledInt4Linear(_TiledLinear):
    """Four bits. Columns j and j + in/2 share a byte."""

    bits = 4
    pairs: Tensor
    zero: Tensor

    def _keep(self, numbers: QuantisedWeight, dtype: torch.dtype) -> None:
        low, high = (numbers.values + 8).to(torch.uint8).chunk(2, 1)
        self.register_buffer("pairs", low | (high << 4))
        self.register_buffer("scale", numbers.scale.to(dtype))
        self.register_buffer("zero", (numbers.zero + 8).to(torch.int8))
        self._group = numbers.group

    def multiply(self, states: Tensor) -> Tensor:
        """Tile by tile."""
        slices = self._slices(self.pairs, self.scale, self.zero)
        return torch.cat([F.linear(states, self._spread(*parts)) for parts in slices], -1)

    def _spread(self, pairs: Tensor, scale: Tensor, zero: Tensor) -> Tensor:
        """A tile [some, in] of the weight."""
        values = torch.cat([pairs & 15, pairs >> 4], 1).view(torch.int8).view(*scale.shape, self._group)
        return (values - zero[..., None]).to(scale.dtype).mul_(scale[..., None]).flatten(1)


class CpuInt8Linear(TiledInt8Linear):
    """torch's kernel for bfloat16 on CPUs, as long as there are few rows."""

    multiples = (1, 32)  # the kernel reads 16 or 32 at a time, even beyond a row's end

    def multiply(self, states: Tensor) -> Tensor:
        """Multiply row after row, or tile by tile if many rows share the spreading."""
        if len(states) > FEW_ROWS:
            return super().multiply(states)
        product: Tensor = torch.ops.aten._weight_int8pack_mm(states, self.values, self.scale.view(-1))
        return product


class _PackedInt4Linear(QuantisedLinear):
    """Four bits in the order of one of torch's kernels; `scale` [groups, out, 2] holds offsets, too."""

    bits = 4
    packed: Tensor
    _kernel: Any

    def _keep(self, numbers: QuantisedWeight, dtype: torch.dtype) -> None:
        self._group = numbers.group
        offset = -numbers.zero * numbers.scale
        both = torch.stack([numbers.scale, offset], -1).transpose(0, 1)
        self.register_buffer("scale", both.to(dtype).contiguous())
        self.register_buffer("packed", self._pack(numbers.values + 8))

    def _pack(self, values: Tensor) -> Tensor:
        """Numbers [out, in] from 0 to 15 in the kernel's order."""
        raise NotImplementedError

    def multiply(self, states: Tensor) -> Tensor:
        """Multiply in one call."""
        product: Tensor = self._kernel(states.contiguous(), self.packed, self._group, self.scale)
        return product


class CpuInt4Linear(_PackedInt4Linear):
    """torch's kernel for bfloat16 on CPUs."""

    _kernel = torch.ops.aten._weight_int4pack_mm_for_cpu
    multiples = (16, 32)  # the kernel's blocks

    def _pack(self, values: Tensor) -> Tensor:
        packed: Tensor = torch.ops.aten._convert_weight_to_int4pack_for_cpu(values.int(), 1)
        return packed


class CudaInt4Linear(_PackedInt4Linear):
    """torch's tinygemm kernel for bfloat16 on CUDA devices from Ampere on."""

    _kernel = torch.ops.aten._weight_int4pack_mm
    multiples = (8, 32)  # the kernel's tiles are 8 by 16, an even number of them along a row

    def _pack(self, values: Tensor) -> Tensor:
        tiles = next(tiles for tiles in (8, 4, 2) if self.in_features % (16 * tiles) == 0)
        even, odd = (values[:, side::2].to(torch.uint8) for side in (0, 1))
        packed: Tensor = torch.ops.aten._convert_weight_to_int4pack(((even << 4) | odd).contiguous(), tiles)
        return packed


TRIED = (0, 1, 2, 5)
"""Tokens that are looked up in both before the table replaces the embedding."""


class QuantisedEmbedding(nn.Module):
    """Looks rows up, [...] ids to [..., size]. `factor` is what some models scale their embeddings with."""

    values: Tensor
    scale: Tensor

    def __init__(self, numbers: QuantisedWeight, dtype: torch.dtype, factor: Tensor | float = 1.0) -> None:
        super().__init__()
        self.register_buffer("values", numbers.values)
        self.register_buffer("scale", numbers.scale.to(dtype))
        self.factor = torch.as_tensor(factor).to(self.scale)

    @property
    def is_plain(self) -> bool:
        """Whether rows are returned as they are."""
        return bool(self.factor == 1)

    @property
    def numbers(self) -> QuantisedWeight:
        """What a tied head multiplies by; the tensors are shared."""
        return QuantisedWeight(self.values, self.scale, torch.zeros_like(self.scale))

    def forward(self, ids: Tensor) -> Tensor:
        """Rows in the precision of the activations."""
        return self.rows(ids) * self.scale[ids] * self.factor

    def rows(self, ids: Tensor) -> Tensor:
        """Whole numbers [..., size]."""
        return self.values[ids]


def stands_for(table: QuantisedEmbedding, embedding: Any) -> bool:
    """Whether the table returns what the embedding does: some models' embeddings compute more."""
    ids = torch.tensor(TRIED)
    expected, found = embedding(ids.to(embedding.weight.device)), table(ids.to(table.values.device))
    if expected.shape != found.shape:
        return False
    step = expected.abs().amax(-1, keepdim=True) / 64  # rows are off by half a step of 1/127 of their largest
    return bool(((found.to(expected) - expected).abs() <= step).all())
