"""The kernels of fused layers, written out in torch's operations as transformers has them."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import _disable_current_modes

from app.engine.block.block import CacheSlots
from app.engine.layers.fused_modules import Activation, HeadNorms, NormShape


@dataclass
class WrittenOut:
    """The kernels of fused layers, computed by torch's operations as in transformers. Records the calls."""

    calls: list[str] = field(default_factory=list)

    def rms_norm(self, states: Tensor, weight: Tensor, shape: NormShape) -> Tensor:
        """Return the RMSNorm of rows [..., size] with the weight [size]."""
        with self._one("norm"):
            return _normed(states, weight, shape)

    def add_rms_norm(
        self, states: Tensor, others: Tensor, weight: Tensor, shape: NormShape
    ) -> tuple[Tensor, Tensor]:
        """Return the sum of both [..., size], and its RMSNorm."""
        with self._one("norm of a sum"):
            total = states + others
            return total, _normed(total, weight, shape)

    def gated_activation(self, gate: Tensor, up: Tensor, activation: Activation) -> Tensor:
        """Return the activation of the gate times up, both [..., size]."""
        with self._one("gated product"):
            if activation == "silu":
                return nn.functional.silu(gate) * up
            return nn.functional.gelu(gate, approximate="tanh") * up

    def write_rotated(
        self,
        states: tuple[Tensor, Tensor, Tensor],
        tables: tuple[Tensor, Tensor],
        slots: CacheSlots,
        norms: HeadNorms | None = None,
    ) -> Tensor:
        """Rotate queries [1, H, T, D] and keys, and write keys and values [1, KV, T, D] to the cache."""
        with self._one("rotary turn"):
            query, keys, values = states
            if norms:
                query, keys = _normed(query, norms.query, norms.shape), _normed(keys, norms.keys, norms.shape)
            cos, sin = (table[:, None] for table in tables)
            slots.write(_turned(keys, cos, sin), values)
            return _turned(query, cos, sin)

    @contextmanager
    def _one(self, name: str) -> Iterator[None]:
        self.calls.append(name)
        with _disable_current_modes():
            yield


def _normed(states: Tensor, weight: Tensor, shape: NormShape) -> Tensor:
    values = states.float()
    values = values * torch.rsqrt(values.pow(2).mean(-1, keepdim=True) + shape.eps)
    if shape.rounds_first:
        return weight * values.to(states.dtype)
    return (values * (weight.float() + shape.adds_one)).to(states.dtype)


def _turned(states: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    width = cos.shape[-1]
    low, high = states[..., :width].chunk(2, dim=-1)
    apply_rotary = states[..., :width] * cos + torch.cat((-high, low), dim=-1) * sin
    return torch.cat((apply_rotary, states[..., width:]), dim=-1)
