"""The interface between fused layers and their kernels."""

from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

from torch import Tensor

from app.engine.block.block import CacheSlots

Activation = Literal["silu", "gelu_tanh"]
"""The activation of a gated MLP: SiLU, x * sigmoid(x), or GELU in its tanh approximation."""


@dataclass(frozen=True, slots=True)
class NormWeight:
    """How an RMSNorm applies its weight w to a normalised row r, which is in float32.

    `rounds_first`: r is rounded to the type before the product; `adds_one`: the factor is 1 + w."""

    rounds_first: bool
    adds_one: bool = False


@dataclass(frozen=True, slots=True)
class NormShape:
    """All of an RMSNorm but its weight."""

    eps: float
    norm_weight: NormWeight


class HeadNorms(NamedTuple):
    """RMSNorms of each head before it rotates: weights [D] of queries and of keys."""

    query: Tensor
    keys: Tensor
    shape: NormShape


class LayerKernels(Protocol):
    """Each method is one launch. A row's bits depend on nothing but the row."""

    def rms_norm(self, states: Tensor, weight: Tensor, shape: NormShape) -> Tensor:
        """RMSNorm of rows [..., size] by weight [size]."""

    def add_rms_norm(
        self, states: Tensor, others: Tensor, weight: Tensor, shape: NormShape
    ) -> tuple[Tensor, Tensor]:
        """The sum of both [..., size], and its RMSNorm."""

    def gated_activation(self, gate: Tensor, up: Tensor, activation: Activation) -> Tensor:
        """activation(gate) * up, both [..., size]; their rows may lie apart."""

    def write_rotated(
        self,
        states: tuple[Tensor, Tensor, Tensor],
        tables: tuple[Tensor, Tensor],
        slots: CacheSlots,
        norms: HeadNorms | None = None,
    ) -> Tensor:
        """Rotate queries [1, H, T, D] and keys, and write keys and values [1, KV, T, D] to the cache.

        `tables` are the positions' cos and sin [1, T, W]. Value i of a head rotates with value i + W / 2; those
        from W on stay. Returns the queries."""
