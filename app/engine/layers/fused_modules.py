"""Modules that replace a model's own, over the same weights. `replacements.py` decides by trial where they may."""

from typing import Any

from torch import Tensor, nn

from app.engine.attention import BlockView
from app.engine.attention.signature import Scoring, attend_layer
from app.engine.layers.kernel_signature import Activation, HeadNorms, LayerKernels, NormShape
from app.engine.runner.kv_cache import CACHE_NAME, BlockCache


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
        """The sum of both, and its norm, in one kernel."""
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

    `products` are queries, keys and values. `head_norms` are what is normalised in that kernel, too; heads that are
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
        """What a decoder layer calls: [1, T, size] to the same, and no weights."""
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
    """A decoder layer of two residual sums, the first in one kernel with the norm behind it."""

    def __init__(self, layer: Any) -> None:
        """The norm behind attention is a FusedNorm already."""
        super().__init__()
        self.input_layernorm, self.self_attn, self.mlp = layer.input_layernorm, layer.self_attn, layer.mlp
        self.post_attention_layernorm: FusedNorm = layer.post_attention_layernorm

    def forward(self, hidden_states: Tensor, **named: Any) -> Tensor:
        """[1, T, size] to the same."""
        attended, _ = self.self_attn(hidden_states=self.input_layernorm(hidden_states), **named)
        total, rms_norm = self.post_attention_layernorm.of_sum(hidden_states, attended)
        product: Tensor = self.mlp(rms_norm)
        return total + product
