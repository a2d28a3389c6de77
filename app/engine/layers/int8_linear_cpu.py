"""A Linear with weights of 8 bits and our own kernel for CPUs. Activations become integers, so sums are exact."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from app.engine.cpu_kernels import cpu_kernels
from app.engine.layers.quantised_layers import QuantisedEmbedding, QuantisedLinear, QuantisedWeight

LARGEST_WEIGHT = 2**7
LARGEST_SUM = 2**31 - 1
LARGEST_ACTIVATION = 127 * 2**8 + 127
"""The largest number that consists of a high and a low signed byte."""
GROUP, QUAD, BLOCK = 16, 4, 64
"""The block sizes of a packed weight, as in int8.h."""
TILE_ROWS = 16
"""Rows that a matrix unit multiplies at once (tiles.h)."""


class NativeInt8Linear(QuantisedLinear):
    """Multiplies with our C kernel.

    Activations have at most 16 bits, and fewer in wide layers, so that a row's sum fits into 32 bits."""

    bits = 8
    rounding = 0.05
    """How much results may differ, because activations are rounded (`tolerance_of` in hardware.py)."""
    packed: Tensor

    def _keep(self, numbers: QuantisedWeight, dtype: torch.dtype) -> None:
        self._library = cpu_kernels()
        if dtype != torch.float32 or self._library is None:
            raise ValueError(f"this kernel needs float32 and a C compiler; the type is {dtype}")
        self.register_buffer("packed", packed(numbers.values))
        self.register_buffer("scale", numbers.scale)
        self.limit = min(LARGEST_ACTIVATION, LARGEST_SUM // (LARGEST_WEIGHT * self.in_features))

    def multiply(self, states: Tensor) -> Tensor:
        states, rows = states.contiguous(), len(states)
        if states.dtype != torch.float32:
            raise ValueError(f"this kernel takes float32, not {states.dtype}")
        out, scales = torch.empty((rows, self.out_features)), torch.empty((rows, 2))
        size = self.in_features + -self.in_features % BLOCK
        numbers = torch.empty((rows + -rows % TILE_ROWS, size), dtype=torch.int16)
        assert self._library is not None
        self._library.int8_linear(
            states.data_ptr(), rows, self.in_features, self.packed.data_ptr(), self.scale.data_ptr(),
            self.out_features, self.limit, numbers.data_ptr(), scales.data_ptr(), out.data_ptr(),
            torch.get_num_threads(),
        )  # fmt: skip
        return out

    def tied(self, table: QuantisedEmbedding) -> QuantisedEmbedding:
        return _PackedEmbedding(table, self.packed)


class _PackedEmbedding(QuantisedEmbedding):
    """Looks rows up in a weight that is packed for the kernel."""

    def __init__(self, table: QuantisedEmbedding, weight: Tensor) -> None:
        super().__init__(table.numbers, table.scale.dtype, table.factor)
        self.size = table.values.shape[1]
        self.values = weight

    def rows(self, ids: Tensor) -> Tensor:
        found = self.values[ids // GROUP, :, ids % GROUP].flatten(-2)[..., : self.size]
        return found.bitwise_xor(LARGEST_WEIGHT).view(torch.int8)


def packed(values: Tensor) -> Tensor:
    """Pack a weight [out, in] for int8.h: [out / GROUP, in / QUAD, GROUP, QUAD].

    `out` is padded to a multiple of GROUP, and `in` to a multiple of BLOCK. 128 is added to each number."""
    outs, size = values.shape
    whole = F.pad(values, (0, -size % BLOCK, 0, -outs % GROUP)).view(torch.uint8).bitwise_xor(LARGEST_WEIGHT)
    return whole.view(-1, GROUP, whole.shape[1] // QUAD, QUAD).transpose(1, 2).contiguous()
