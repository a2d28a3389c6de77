"""Linears and embeddings with weights of 8 or 4 bits, and the kernels that multiply by them.

    weight = (number - zero) * scale        scale and zero are shared by a group of neighbours in a row

Without a kernel that reads such weights, the weight is dequantised in tiles that stay in the processor's cache, so
that only the integers are read from memory. On a GPU with Triton the weights are packed (`packed_layers.py`)."""

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

TILE = {"cpu": 2**19, "cuda": 2**23}
"""About how many weights are dequantised at a time."""

FEW_ROWS = 16
"""With more rows than this, tiles are faster than torch's int8 kernel for CPUs."""


@dataclass(frozen=True, slots=True)
class QuantisedWeight:
    """A weight as integers [out, in] (int8), with scale and zero [out, groups]."""

    values: Tensor
    scale: Tensor
    zero: Tensor

    @property
    def group(self) -> int:
        """The number of neighbouring values that share a scale."""
        return self.values.shape[1] // self.scale.shape[1]

    def dense(self) -> Tensor:
        """Dequantise the weight: [out, in] in float32."""
        spread = self.values.float().view(*self.scale.shape, self.group)
        return ((spread - self.zero[..., None]) * self.scale[..., None]).flatten(1)


class QuantisedLinear(nn.Module):
    """A Linear with integer weights. Subclasses register them as buffers, in the layout that their kernel reads."""

    bits: int
    multiples = (1, 1)
    """The numbers of outputs and of inputs must be multiples of these."""
    scale: Tensor

    def __init__(self, numbers: QuantisedWeight, bias: Tensor | None, dtype: torch.dtype) -> None:
        super().__init__()
        self.out_features, self.in_features = numbers.values.shape
        self.bias = bias
        self._keep(numbers, dtype)

    def _keep(self, numbers: QuantisedWeight, dtype: torch.dtype) -> None:
        """Register the buffers that the kernel reads; `dtype` is the type of activations and scales."""
        raise NotImplementedError

    @classmethod
    def fits(cls, out_features: int, in_features: int) -> bool:
        return out_features % cls.multiples[0] == 0 and in_features % cls.multiples[1] == 0

    @property
    def weight(self) -> Tensor:
        """The dequantised weight [out, in], for code that needs the weight itself."""
        return self.multiply(torch.eye(self.in_features, out=self.scale.new_empty(0))).t()

    def multiply(self, states: Tensor) -> Tensor:
        """Multiply states [rows, in] by the weight: [rows, out], without the bias."""
        raise NotImplementedError

    def forward(self, states: Tensor) -> Tensor:
        """Multiply states [..., in] by the weight and add the bias: [..., out]."""
        shape = states.shape[:-1]
        rows = states.reshape(-1, self.in_features)
        product = self.multiply(rows) if len(rows) else rows.new_empty(0, self.out_features)
        if self.bias is not None:
            product = product + self.bias
        return product.view(*shape, self.out_features)

    def tied(self, table: "QuantisedEmbedding") -> "QuantisedEmbedding":
        """Return the embedding that is tied to this head: `table`, unless a subclass packs the weight."""
        return table


def rows_of_tile(device: torch.device, size: int) -> int:
    """Return how many rows of this size are dequantised at a time."""
    return max(1, TILE[device.type] // size)


class TiledInt8Linear(QuantisedLinear):
    """Weights of 8 bits with one scale per row. The weight is converted tile by tile to the states' type."""

    bits = 8
    values: Tensor

    def _keep(self, numbers: QuantisedWeight, dtype: torch.dtype) -> None:
        self.register_buffer("values", numbers.values)
        self.register_buffer("scale", numbers.scale.to(dtype))

    def multiply(self, states: Tensor) -> Tensor:
        # The states are divided by 128, because products with integers up to 127 could exceed float16's range. Only
        # float16 states below 0.008 lose digits by this division, up to 4e-6 each.
        small = states / 128
        tiles = torch.split(self.values, rows_of_tile(states.device, self.in_features))
        return torch.cat([F.linear(small, values.to(states.dtype)) for values in tiles], -1).mul_(
            self.scale.view(-1) * 128
        )


class TiledInt4Linear(QuantisedLinear):
    """Weights of 4 bits, which are dequantised tile by tile. The weights of columns j and j + in/2 share a byte."""

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
        rows = rows_of_tile(states.device, self.in_features)
        tiles = zip(*(torch.split(part, rows) for part in (self.pairs, self.scale, self.zero)), strict=True)
        return torch.cat([F.linear(states, self._spread(*parts)) for parts in tiles], -1)

    def _spread(self, pairs: Tensor, scale: Tensor, zero: Tensor) -> Tensor:
        """Dequantise a tile of the weight: [rows of the tile, in]."""
        values = torch.cat([pairs & 15, pairs >> 4], 1).view(torch.int8).view(*scale.shape, self._group)
        return (values - zero[..., None]).to(scale.dtype).mul_(scale[..., None]).flatten(1)


class CpuInt8Linear(TiledInt8Linear):
    """Uses torch's kernel for bfloat16 on CPUs for few rows, and tiles for many."""

    multiples = (1, 32)  # the kernel reads 16 or 32 inputs at a time, even beyond a row's end

    def multiply(self, states: Tensor) -> Tensor:
        if len(states) > FEW_ROWS:
            return super().multiply(states)
        product: Tensor = torch.ops.aten._weight_int8pack_mm(states, self.values, self.scale.view(-1))
        return product


class _PackedInt4Linear(QuantisedLinear):
    """Weights of 4 bits in the layout of one of torch's kernels; `scale` [groups, out, 2] are scales and
    offsets."""

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
        """Pack integers [out, in] from 0 to 15 into the kernel's layout."""
        raise NotImplementedError

    def multiply(self, states: Tensor) -> Tensor:
        product: Tensor = self._kernel(states.contiguous(), self.packed, self._group, self.scale)
        return product


class CpuInt4Linear(_PackedInt4Linear):
    """Uses torch's kernel for weights of 4 bits with bfloat16 on CPUs."""

    _kernel = torch.ops.aten._weight_int4pack_mm_for_cpu
    multiples = (16, 32)  # the kernel's blocks

    def _pack(self, values: Tensor) -> Tensor:
        packed: Tensor = torch.ops.aten._convert_weight_to_int4pack_for_cpu(values.int(), 1)
        return packed


class CudaInt4Linear(_PackedInt4Linear):
    """Uses torch's tinygemm kernel for bfloat16 on GPUs from Ampere on, if Triton is not installed."""

    _kernel = torch.ops.aten._weight_int4pack_mm
    multiples = (8, 32)  # a tile has 8 outputs and 16 inputs, and a row has an even number of tiles

    def _pack(self, values: Tensor) -> Tensor:
        tiles = next(tiles for tiles in (8, 4, 2) if self.in_features % (16 * tiles) == 0)
        even, odd = (values[:, side::2].to(torch.uint8) for side in (0, 1))
        packed: Tensor = torch.ops.aten._convert_weight_to_int4pack(((even << 4) | odd).contiguous(), tiles)
        return packed


TRIED = (0, 1, 2, 5)
"""Token ids that are looked up in the table and in the embedding before the table replaces the embedding."""
FIRST_ROWS = 64
"""The rows of the embedding that are used for this. They are more than TRIED needs, because an embedding may add a
number to the ids."""


class QuantisedEmbedding(nn.Module):
    """An embedding of 8 bits: ids [...] -> rows [..., size]. Some models scale their embeddings by a `factor`."""

    values: Tensor
    scale: Tensor

    def __init__(self, numbers: QuantisedWeight, dtype: torch.dtype, factor: Tensor | float = 1.0) -> None:
        super().__init__()
        self.register_buffer("values", numbers.values)
        self.register_buffer("scale", numbers.scale.to(dtype))
        self.factor = torch.as_tensor(factor).to(self.scale)

    @property
    def is_plain(self) -> bool:
        """Whether rows are returned without a factor."""
        return bool(self.factor == 1)

    @property
    def numbers(self) -> QuantisedWeight:
        """The integers and scales as the weight of a tied head; the tensors are shared."""
        return QuantisedWeight(self.values, self.scale, torch.zeros_like(self.scale))

    def forward(self, ids: Tensor) -> Tensor:
        """Look rows [..., size] up, in the precision of the activations."""
        return self.rows(ids) * self.scale[ids] * self.factor

    def rows(self, ids: Tensor) -> Tensor:
        """Return the integers [..., size] of rows with these ids [...]."""
        return self.values[ids]


def stands_for(table: QuantisedEmbedding, embedding: Any, first: Tensor) -> bool:
    """Return whether the table returns the embedding's rows for TRIED, up to rounding; `first` are the FIRST_ROWS
    of the embedding's weight.

    In some models an embedding does more than look rows up."""
    ids, weight = torch.tensor(TRIED), embedding.weight
    embedding.weight = nn.Parameter(first.to(weight.dtype), requires_grad=False)
    expected, found = embedding(ids.to(first.device)), table(ids.to(table.factor.device))
    embedding.weight = weight
    if expected.shape != found.shape:
        return False
    # Quantising changes a value by up to half of 1/127 of the row's largest value; four times as much is allowed.
    allowed = expected.abs().amax(-1, keepdim=True) / 64
    return bool(((found.to(expected) - expected).abs() <= allowed).all())
