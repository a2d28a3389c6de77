"""Runs an EAGLE-3 head (Li et al. 2025, arXiv 2503.01840): one or more decoder layers. The first layer reads hidden
states of the head's target (`head_reader.py`).

`fc` joins the target's states of several layers, usually a low, a middle and a high layer. The first layer's
queries, keys and values are computed from a token's embedding and the joined state, side by side; after a guess,
the head's own output replaces the state. The LM head may have a smaller vocabulary: its token t is the target's
t + d2t[t].

The weights have the layout and names with which vllm-project/speculators saves them (`models/eagle3/core.py`,
`models/eagle3/model_definitions.py` and `DraftVocabMixin` in its `model.py`, August 2026).
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from transformers import LlamaConfig, PreTrainedConfig, Qwen3Config
from transformers.models.llama.modeling_llama import LlamaDecoderLayer, LlamaRMSNorm, LlamaRotaryEmbedding
from transformers.models.qwen3.modeling_qwen3 import Qwen3DecoderLayer, Qwen3RMSNorm, Qwen3RotaryEmbedding

from app.engine import attention
from app.engine.attention import BlockView
from app.engine.runner.hidden_states import HiddenStates
from app.engine.runner.kv_cache import CACHE_NAME, BlockCache
from app.values.draft_heads import EagleConfig, LayerType

_PARTS: dict[LayerType, tuple[Any, Any, Any, Any]] = {
    "llama": (LlamaConfig, LlamaDecoderLayer, LlamaRMSNorm, LlamaRotaryEmbedding),
    "qwen3": (Qwen3Config, Qwen3DecoderLayer, Qwen3RMSNorm, Qwen3RotaryEmbedding),
}
"""transformers' config, layer, norm and rotary table of each kind of head."""


def layer_config(config: EagleConfig) -> PreTrainedConfig:
    """Make transformers' config of the head's layers. Raises transformers' errors."""
    made: PreTrainedConfig = _PARTS[config.model_type][0](**config.layer)
    made._attn_implementation = attention.NAME
    return made


class _FirstLayer(nn.Module):
    """A decoder layer whose attention reads the embedding and the state side by side."""

    def __init__(self, layer: Any, norm: nn.Module, is_residual_normed: bool) -> None:
        super().__init__()
        self.self_attn, self.mlp = layer.self_attn, layer.mlp
        self.input_layernorm, self.hidden_norm = layer.input_layernorm, norm
        self.post_attention_layernorm = layer.post_attention_layernorm
        self._is_residual_normed = is_residual_normed
        for name in ("q_proj", "k_proj", "v_proj"):
            one = getattr(self.self_attn, name)
            wider = nn.Linear(2 * one.in_features, one.out_features, bias=one.bias is not None)
            setattr(self.self_attn, name, wider)

    def forward(self, embedded: Tensor, states: Tensor, **named: Any) -> Tensor:
        """Compute rows [1, n, width] from embeddings and states of the same shape."""
        normed = self.hidden_norm(states)
        both = torch.cat([self.input_layernorm(embedded), normed], dim=-1)
        attended, _ = self.self_attn(hidden_states=both, **named)
        total = (normed if self._is_residual_normed else states) + attended
        output: Tensor = total + self.mlp(self.post_attention_layernorm(total))
        return output


class EagleHead(nn.Module):
    """An EAGLE-3 head. Its modules have the names that checkpoints use."""

    targets: Tensor
    """The target's token id for each id of the head's LM head [draft vocab]."""

    def __init__(self, config: EagleConfig, states: int) -> None:
        """Make a head that reads `states` hidden states of its target, on the meta device, without weights.

        Raises transformers' errors."""
        super().__init__()
        _, make_layer, make_norm, self._rotary = _PARTS[config.model_type]
        self.config = config
        made = self._layer_config = layer_config(config)
        self.num_layers: int = made.num_hidden_layers

        def norm(width: int) -> nn.Module:
            module: nn.Module = make_norm(width, eps=made.rms_norm_eps)
            return module

        with torch.device("meta"):
            self.embed_tokens: nn.Module = nn.Embedding(config.vocabulary, config.hidden)
            if config.norm_before_fc:
                self.input_norm = norm(states * config.target_hidden)
            if config.fc_norm:
                self.fc_norm = nn.ModuleList(norm(config.target_hidden) for _ in range(states))
            self.fc = nn.Linear(states * config.target_hidden, config.hidden, bias=False)
            first, *rest = [make_layer(made, number) for number in range(self.num_layers)]
            first = _FirstLayer(first, norm(config.hidden), config.norm_before_residual)
            self.layers = nn.ModuleList([first, *rest])
            self.norm = norm(config.hidden)
            self.lm_head = nn.Linear(config.hidden, config.draft_vocabulary, bias=False)

    def tie(self, embed_tokens: nn.Module, targets: Tensor) -> None:
        """Set the embeddings and `targets` of a head whose weights were loaded, and make its rotary table."""
        self.embed_tokens = embed_tokens
        self.register_buffer("targets", targets.to(self.device), persistent=False)
        self.rotary_emb = self._rotary(self._layer_config).to(self.device)

    @property
    def device(self) -> torch.device:
        return self.fc.weight.device

    def joined(self, states: Tensor) -> Tensor:
        if self.config.norm_before_fc:
            states = self.input_norm(states)
        if self.config.fc_norm:
            parts = states.chunk(len(self.fc_norm), dim=-1)
            states = torch.cat([norm(part) for norm, part in zip(self.fc_norm, parts, strict=True)], dim=-1)
        joined: Tensor = self.fc(states)
        return joined

    def output(self, tokens: Tensor, states: Tensor, view: BlockView, cache: BlockCache) -> Tensor:
        positions = view.positions[None] + 1
        return self.forward(tokens, states, positions, attention_mask=None, block=view, **{CACHE_NAME: cache})

    def forward(self, tokens: Tensor, states: Tensor, positions: Tensor, **named: Any) -> Tensor:
        """Compute outputs [1, n, width] of tokens [1, n] with joined states or earlier outputs."""
        embedded = self.embed_tokens(tokens)
        named["position_embeddings"] = self.rotary_emb(embedded, positions)
        first, *rest = self.layers
        output: Tensor = first(embedded, states, **named)
        for layer in rest:
            output = layer(output, **named)
        return self.norm(output) if self.config.norm_output else output

    def logits(self, output: Tensor) -> Tensor:
        own = self.lm_head(output if self.config.norm_output else self.norm(output))
        logits: Tensor = own.new_full((len(own), self.config.vocabulary), -torch.inf)
        return logits.index_copy_(1, self.targets, own)

    @torch.inference_mode()
    def expected(self, text: Sequence[int], target: HiddenStates) -> Tensor:
        # Uses transformers' eager attention and neither our attention nor a cache.
        rows = len(text) - 1
        states = target.rows(0, rows)
        seen = states.new_full((rows, rows), torch.finfo(states.dtype).min).triu(1)[None, None]
        tokens = torch.tensor([text[1:]], device=self.device)
        positions = torch.arange(1, len(text), device=self.device)[None]
        self._layer_config._attn_implementation = "eager"
        try:
            output = self(tokens, self.joined(states), positions, attention_mask=seen)
        finally:
            self._layer_config._attn_implementation = attention.NAME
        return self.logits(output[:, -1])
