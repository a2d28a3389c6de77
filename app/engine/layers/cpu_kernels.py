"""Calls the CPU's kernels with torch's tensors, all in float32."""

from ctypes import CDLL
from dataclasses import dataclass

import torch
from torch import Tensor

from app.engine.block.block import CacheSlots
from app.engine.layers.kernel_signature import Activation, HeadNorms, NormShape


@dataclass(frozen=True, slots=True)
class CpuKernels:
    """The parts of a layer between its products: each method is one call."""

    library: CDLL

    def rms_norm(self, states: Tensor, weight: Tensor, shape: NormShape) -> Tensor:
        """RMSNorm of rows [..., size]."""
        states = states.contiguous()
        out = torch.empty_like(states)
        self._norm(states, None, weight, shape, out, out)
        return out

    def add_rms_norm(
        self, states: Tensor, others: Tensor, weight: Tensor, shape: NormShape
    ) -> tuple[Tensor, Tensor]:
        """The sum of both [..., size], and its RMSNorm."""
        states, others = states.contiguous(), others.contiguous()
        total, out = torch.empty_like(states), torch.empty_like(states)
        self._norm(states, others.data_ptr(), weight, shape, total, out)
        return total, out

    def _norm(
        self, states: Tensor, others: int | None, weight: Tensor, shape: NormShape, total: Tensor, out: Tensor
    ) -> None:
        size = _checked(states, weight, total, out).shape[-1]
        self.library.rms_norm(
            states.data_ptr(), others, weight.data_ptr(), states.numel() // size, size, shape.eps,
            shape.norm_weight.adds_one, total.data_ptr(), out.data_ptr(),
        )  # fmt: skip

    def gated_activation(self, gate: Tensor, up: Tensor, activation: Activation) -> Tensor:
        """activation(gate) * up, both [..., size]."""
        size = gate.shape[-1]
        gates, ups = gate.reshape(-1, size), up.reshape(-1, size)
        out = torch.empty(gates.shape)
        _checked(gates, ups, out)
        self.library.gated_activation(
            gates.data_ptr(), gates.stride(0), ups.data_ptr(), ups.stride(0), len(gates), size,
            activation == "gelu_tanh", out.data_ptr(), torch.get_num_threads(),
        )  # fmt: skip
        return out.view(gate.shape)

    def write_rotated(
        self,
        states: tuple[Tensor, Tensor, Tensor],
        tables: tuple[Tensor, Tensor],
        slots: CacheSlots,
        norms: HeadNorms | None = None,
    ) -> Tensor:
        """Rotate queries [1, H, T, D] and keys, and write keys and values [1, KV, T, D] to the cache."""
        query, keys, values = states
        if norms:
            query = self.rms_norm(query, norms.query, norms.shape)
            keys = self.rms_norm(keys, norms.keys, norms.shape)
        cos, sin = (table.contiguous() for table in tables)
        slots.write(self._rotated(keys, cos, sin), values)
        return self._rotated(query, cos, sin)

    def _rotated(self, states: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        _, heads, rows, size = states.shape
        out = torch.empty((1, rows, heads, size))
        _checked(states, cos, sin, out)
        _, head_stride, row_stride, _ = states.stride()
        self.library.rotate(
            states.data_ptr(), head_stride, row_stride, cos.data_ptr(), sin.data_ptr(), heads, rows, size,
            cos.shape[-1], out.data_ptr(),
        )  # fmt: skip
        return out.transpose(1, 2)


def _checked(first: Tensor, *others: Tensor) -> Tensor:
    """The first tensor; raises ValueError unless all are float32 whose last dimension is dense."""
    for tensor in (first, *others):
        if tensor.dtype != torch.float32 or tensor.stride(-1) != 1:
            raise ValueError(f"CPU kernels take dense float32, got {tensor.dtype} {tensor.stride()}")
    return first
