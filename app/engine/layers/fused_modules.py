"""Modules that replace a model's own, over the same weights, and the interface of the kernels that they call.

`replacements.py` decides by trial where they may replace them.
"""

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol

from torch import Tensor, nn

from app.engine.attention import BlockView
from app.engine.attention.signature import Scoring, attend_layer
from app.engine.block.block import CacheSlots
from app.engine.runner.kv_cache import CACHE_NAME, BlockCache

Activation = Literal["silu", "gelu_tanh"]
"""The activation of a gated MLP: SiLU, x * sigmoid(x), or GELU in its tanh approximation."""


@dataclass(frozen=True, slots=True)
class NormShape:
    """Everything of an RMSNorm except its weight w, which it applies to a normalised row r in float32.

    `rounds_first`: r is rounded to the type before the product; `adds_one`: the factor is 1 + w."""

    eps: float
    rounds_first: bool
    adds_one: bool = False


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


class FusedNorm(nn.Module):
    """An RMSNorm in one kernel."""

    def __init__(self, weight: nn.Parameter, shape: NormShape, kernels: LayerKernels) -> None:
        super().__init__()
        self.weight = weight
        self.shape = shape
        self._kernels = kernels

    def forward(self, states: Tensor) -> Tensor:
        """[..., size] to the same."""
        return self._kernels.rms_norm(states, self.weight, self.shape)

    def of_sum(self, states: Tensor, others: Tensor) -> tuple[Tensor, Tensor]:
        """Add both; returns the sum and its norm, in one kernel."""
        return self._kernels.add_rms_norm(states, others, self.weight, self.shape)


class FusedGatedMLP(nn.Module):
    """A gated MLP whose activation and product are one kernel. `products` are the gate and up."""

    def __init__(self, mlp: Any, products: nn.Module, activation: Activation, kernels: LayerKernels) -> None:
        super().__init__()
        self.products, self.down_proj = products, mlp.down_proj
        self.activation: Activation = activation
        self._kernels = kernels

    def forward(self, states: Tensor) -> Tensor:
        """[..., size] to the same."""
        gate, up = self.products(states)
        product: Tensor = self.down_proj(self._kernels.gated_activation(gate, up, self.activation))
        return product


class FusedAttention(nn.Module):
    """Self-attention over a block: products, rotary embedding and cache in one kernel, our attention.

    `products` are queries, keys and values. The kernel normalises `head_norms`, too; heads that are
    normalised in another way have modules."""

    def __init__(self, layer: Any, products: nn.Module, scoring: Scoring, kernels: LayerKernels) -> None:
        super().__init__()
        self.products, self.o_proj = products, layer.o_proj
        self.q_norm = getattr(layer, "q_norm", None) or nn.Identity()
        self.k_norm = getattr(layer, "k_norm", None) or nn.Identity()
        self.head_norms: HeadNorms | None = None
        self.head_dim, self.layer_idx = layer.head_dim, layer.layer_idx
        self.scoring = scoring
        self._kernels = kernels

    def forward(
        self,
        hidden_states: Tensor,
        position_embeddings: tuple[Tensor, Tensor],
        attention_mask: Tensor | None = None,
        *,
        block: BlockView,
        **others: Any,
    ) -> tuple[Tensor, None]:
        """Attend as a decoder layer asks: [1, T, size] to the same, and no weights."""
        heads = (*hidden_states.shape[:-1], -1, self.head_dim)
        query, keys, values = (each.view(heads) for each in self.products(hidden_states))
        states = (
            self.q_norm(query).transpose(1, 2),
            self.k_norm(keys).transpose(1, 2),
            values.transpose(1, 2),
        )
        cache: BlockCache = others.pop(CACHE_NAME)
        slots = cache.slots_for(self.layer_idx, *states[1:])
        query = self._kernels.write_rotated(states, position_embeddings, slots, self.head_norms)
        attended, _ = attend_layer(
            self,
            query,
            *slots.up_to(hidden_states.shape[1]),
            attention_mask,
            block=block,
            scaling=self.scoring.scale,
            sliding_window=self.scoring.window,
            softcap=self.scoring.softcap,
            **others,
        )
        return self.o_proj(attended.flatten(2)), None


class FusedLayer(nn.Module):
    """A decoder layer of two residual sums, the first in one kernel with the norm after it."""

    def __init__(self, layer: Any) -> None:
        """The norm after attention must be a FusedNorm already."""
        super().__init__()
        self.input_layernorm, self.self_attn, self.mlp = layer.input_layernorm, layer.self_attn, layer.mlp
        self.post_attention_layernorm: FusedNorm = layer.post_attention_layernorm

    def forward(self, hidden_states: Tensor, **named: Any) -> Tensor:
        """[1, T, size] to the same."""
        attended, _ = self.self_attn(hidden_states=self.input_layernorm(hidden_states), **named)
        total, rms_norm = self.post_attention_layernorm.of_sum(hidden_states, attended)
        product: Tensor = self.mlp(rms_norm)
        return total + product
