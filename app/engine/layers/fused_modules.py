"""Modules that replace a model's own modules and use the same weights, and the interface of their kernels."""

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol

from torch import Tensor, nn

from app.engine.attention import BlockView
from app.engine.attention.signature import Scoring, attend_layer
from app.engine.block.block import CacheSlots
from app.engine.runner.kv_cache import CACHE_NAME, BlockCache

Activation = Literal["silu", "gelu_tanh"]
"""The activation of a gated MLP: SiLU, which is x * sigmoid(x), or the tanh approximation of GELU."""


@dataclass(frozen=True, slots=True)
class NormShape:
    """The kind of an RMSNorm, which multiplies a normalised row r by a weight w in float32.

    With `rounds_first`, r is rounded to the model's type first. With `adds_one`, r is multiplied by 1 + w."""

    eps: float
    rounds_first: bool
    adds_one: bool = False


class HeadNorms(NamedTuple):
    """The RMSNorms of heads before their rotation: weights [D] for queries and for keys."""

    query: Tensor
    keys: Tensor
    shape: NormShape


class LayerKernels(Protocol):
    """The kernels of fused layers. A row's result does not depend on other rows."""

    def rms_norm(self, states: Tensor, weight: Tensor, shape: NormShape) -> Tensor:
        """Normalise rows [..., size] by RMSNorm with weight [size]."""

    def add_rms_norm(
        self, states: Tensor, others: Tensor, weight: Tensor, shape: NormShape
    ) -> tuple[Tensor, Tensor]:
        """Add `states` and `others` [..., size]; return the sum and its RMSNorm."""

    def gated_activation(self, gate: Tensor, up: Tensor, activation: Activation) -> Tensor:
        """Compute activation(gate) * up, both [..., size]; their rows need not be contiguous."""

    def write_rotated(
        self,
        states: tuple[Tensor, Tensor, Tensor],
        tables: tuple[Tensor, Tensor],
        slots: CacheSlots,
        norms: HeadNorms | None = None,
    ) -> Tensor:
        """Rotate queries [1, H, T, D] and keys; write keys and values [1, KV, T, D] to the cache; return the
        queries. Queries and keys are normalised first if `norms` are given.

        `tables` are the positions' cos and sin [1, T, W]. Value i of a head rotates with value i + W / 2;
        values from index W on are not rotated."""


class FusedNorm(nn.Module):
    """An RMSNorm in one kernel."""

    def __init__(self, weight: nn.Parameter, shape: NormShape, kernels: LayerKernels) -> None:
        super().__init__()
        self.weight = weight
        self.shape = shape
        self._kernels = kernels
        self._known: tuple[Tensor, Tensor] | None = None  # a sum, and its norm

    def forward(self, states: Tensor) -> Tensor:
        """Return the norm of states [..., size], which `sum_ahead` may have computed already."""
        known, self._known = self._known, None
        if known is not None and known[0] is states:
            return known[1]
        return self._kernels.rms_norm(states, self.weight, self.shape)

    def sum_ahead(self, states: Tensor, others: Tensor) -> Tensor:
        """Add `states` and `others`; return the sum, whose norm is kept for the next call of `forward`."""
        self._known = self.of_sum(states, others)
        return self._known[0]

    def of_sum(self, states: Tensor, others: Tensor) -> tuple[Tensor, Tensor]:
        """Add `states` and `others`; return the sum and its norm, computed in one kernel."""
        return self._kernels.add_rms_norm(states, others, self.weight, self.shape)


class FusedGatedMLP(nn.Module):
    """A gated MLP; one kernel computes activation(gate) * up. `products` returns gate and up."""

    def __init__(self, mlp: Any, products: nn.Module, activation: Activation, kernels: LayerKernels) -> None:
        super().__init__()
        self.products, self.down_proj = products, mlp.down_proj
        self.activation: Activation = activation
        self._kernels = kernels

    def forward(self, states: Tensor) -> Tensor:
        gate, up = self.products(states)
        product: Tensor = self.down_proj(self._kernels.gated_activation(gate, up, self.activation))
        return product


class FusedAttention(nn.Module):
    """Self-attention over a block: our kernels rotate heads and write the cache, then our attention runs.

    `products` returns queries, keys and values. Heads are normalised by our kernels if `head_norms` is set,
    otherwise by the modules `q_norm` and `k_norm`, if any."""

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
        """Write keys and values to the cache; return (output [1, T, size], None for attention weights)."""
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
    """A decoder layer with two residual sums; a kernel computes a sum together with the norm after it.

    If the norm after the second sum (the next layer's, or the model's last) is fused, it is in `following`."""

    def __init__(self, layer: Any) -> None:
        """Take the parts of a layer, whose norm after attention must already be a FusedNorm."""
        super().__init__()
        # A tuple, because nn.Module would register a bare norm as a submodule of this layer.
        self.following: tuple[FusedNorm, ...] = ()
        self.input_layernorm, self.self_attn, self.mlp = layer.input_layernorm, layer.self_attn, layer.mlp
        self.post_attention_layernorm: FusedNorm = layer.post_attention_layernorm

    def forward(self, hidden_states: Tensor, **named: Any) -> Tensor:
        attended, _ = self.self_attn(hidden_states=self.input_layernorm(hidden_states), **named)
        total, rms_norm = self.post_attention_layernorm.of_sum(hidden_states, attended)
        product: Tensor = self.mlp(rms_norm)
        for norm in self.following:
            return norm.sum_ahead(total, product)
        return total + product
