"""A Linear of 8 bits whose activations become whole numbers, row by row: sums are exact, whatever their order."""

import torch
from torch import Tensor

from app.engine.cpu_kernels.loading import cpu_kernels
from app.engine.quantised_layers import Numbers, TiledInt8Linear

LARGEST_WEIGHT = 2**7
LARGEST_SUM = 2**31 - 1
LARGEST_ACTIVATION = 2**15 - 1
TILE_ROWS = 16
"""Rows that a matrix unit takes at once (tiles.h)."""


class NativeInt8Linear(TiledInt8Linear):
    """By the CPU's own kernel. Activations take up to 16 bits, as many as a row's sum leaves room for."""

    rounds_activations = True

    def _keep(self, numbers: Numbers, dtype: torch.dtype) -> None:
        super()._keep(numbers, dtype)
        self._library = cpu_kernels()
        if dtype != torch.float32 or self._library is None:
            raise ValueError(f"this kernel takes float32, and a C compiler must have made it, got {dtype}")
        self.limit = min(LARGEST_ACTIVATION, LARGEST_SUM // (LARGEST_WEIGHT * self.in_features))

    def multiply(self, states: Tensor) -> Tensor:
        """Row by row."""
        states, rows = states.contiguous(), len(states)
        if states.dtype != torch.float32:
            raise ValueError(f"this kernel takes float32, got {states.dtype}")
        out, scales = torch.empty((rows, self.out_features)), torch.empty(rows)
        numbers = torch.empty((rows + -rows % TILE_ROWS, self.in_features), dtype=torch.int16)
        assert self._library is not None
        self._library.int8_linear(
            states.data_ptr(), rows, self.in_features, self.values.data_ptr(), self.scale.data_ptr(),
            self.out_features, self.limit, numbers.data_ptr(), scales.data_ptr(), out.data_ptr(),
            torch.get_num_threads(),
        )  # fmt: skip
        return out
