"""Computes draft logits with a head: layers, often part of a checkpoint, that guess tokens from the hidden states
of their target. The target is the model that checks the guesses.

A head's row for a token is computed from the token's embedding and the target's states one token earlier. It
attends to the head's own earlier rows:

    text             A B    C          and a guess, d
    token              B    C          d
    state              A'   B'         the head's own output after C
    predicts after   A B    A B C      A B C d

For a guess after a guess the target has no state yet: the head's own output replaces it, as in EAGLE (Li et al.
2024) and in vLLM. Rows of accepted guesses are computed again with the target's states.
"""

from collections.abc import Sequence
from typing import Any, Protocol

import torch
from torch import Tensor
from transformers.modeling_layers import MtpModel

from app.engine.attention import Attend, BlockView
from app.engine.block.block import chain_block
from app.engine.runner.hidden_states import HiddenStates, write_states
from app.engine.runner.kv_cache import CACHE_NAME, BlockCache

CHUNK = 512
"""Maximum number of tokens of the text that are read in one pass."""


class Head(Protocol):
    """Layers that guess tokens from a target's states. `num_layers` of the layers keep keys and values."""

    num_layers: int

    @property
    def device(self) -> torch.device:
        """The device of the head's weights."""

    def joined(self, states: Tensor) -> Tensor:
        """Join the target's states [1, n, all widths] into the inputs of n rows [1, n, width]."""

    def output(self, tokens: Tensor, states: Tensor, view: BlockView, cache: BlockCache) -> Tensor:
        """Compute the outputs [1, n, width] of tokens [1, n], from joined states or from earlier outputs.

        The positions in the view are those of the states."""

    def logits(self, output: Tensor) -> Tensor:
        """Compute logits [1, vocab] from an output [1, width]; -inf for tokens that the head cannot predict."""

    def expected(self, text: Sequence[int], target: HiddenStates) -> Tensor:
        """Compute logits [1, vocab] after a text with transformers' attention, to try the head."""


class HeadReader:
    """Computes draft logits after a text that the target has committed, and after guesses that follow this text."""

    def __init__(
        self, head: Head, target: HiddenStates, attend: Attend, context: int, vocabulary: int
    ) -> None:
        """Take a head and its target; `vocabulary` is the size of the target's vocabulary."""
        self.context, self.vocabulary = context, vocabulary
        self._head, self._target, self._attend = head, target, attend
        self._cache = BlockCache()
        self._own = HiddenStates(self._cache, head.num_layers)
        # How many of the newest call's tokens have rows that were computed from the target's states. The first
        # token, which has no row, is counted as well.
        self._true_rows = 1

    @torch.inference_mode()
    def read(self, tokens: Sequence[int], known: int) -> Tensor:
        """Compute logits [vocab] as other readers do; returns an empty tensor for a single token."""
        true_rows = min(len(self._target) + 1, len(tokens))
        here = max(known, 1)
        if self._true_rows < min(here, true_rows):
            here = self._true_rows
        self._cache.rewind(here - 1)
        self._true_rows = min(here, true_rows)
        output = torch.empty(0)
        while here < len(tokens):
            end = min(here + CHUNK, true_rows) if here < true_rows else here + 1
            output = self._pass(tokens[here:end], here)
            self._true_rows, here = min(end, true_rows), end
        return self._head.logits(output[:, -1])[0] if len(output) else output

    def forget(self) -> None:
        self._cache.rewind(0)
        self._true_rows = 1

    def _pass(self, tokens: Sequence[int], start: int) -> Tensor:
        """Read these tokens at the positions from `start` on; return their outputs [1, n, width]."""
        rows, device = len(tokens), self._head.device
        block = chain_block(tokens, start - 1, wanted=())
        view = BlockView(block, self._cache.length, self._attend, device)
        if start - 1 + rows <= len(self._target):
            states = self._head.joined(self._target.rows(start - 1, start - 1 + rows))
        else:  # the target has no states for some of these tokens
            states = self._own.rows(start - 2, start - 2 + rows)
        output = self._head.output(torch.tensor([tokens], device=device), states, view, self._cache)
        write_states(self._cache, self._head.num_layers, output)
        self._cache.commit(range(rows))
        return output


class MtpHead:
    """The first head for multi-token prediction in a checkpoint (DeepSeek-V3, GLM-4.5 and others).

    Its layer guesses the token after the next one from the states that the target passes to its LM head. It
    uses the target's embedding, LM head and rotary table."""

    num_layers = 1

    def __init__(self, model: MtpModel) -> None:
        self._model = model

    @property
    def device(self) -> torch.device:
        device: torch.device = self._model.device
        return device

    def joined(self, states: Tensor) -> Tensor:
        return states

    def output(self, tokens: Tensor, states: Tensor, view: BlockView, cache: BlockCache) -> Tensor:
        return self._layer(tokens, states, view.positions[None] + 1, cache, block=view)

    def logits(self, output: Tensor) -> Tensor:
        logits: Tensor = self._model._project_to_logits(output)
        return logits

    @torch.inference_mode()
    def expected(self, text: Sequence[int], target: HiddenStates) -> Tensor:
        # Uses transformers' eager attention and neither our attention nor a cache.
        ours, states = self._model.config._attn_implementation, target.rows(0, len(text) - 1)
        tokens = torch.tensor([text[1:]], device=states.device)
        positions = torch.arange(1, len(text), device=states.device)[None]
        self._model.set_attn_implementation("eager")
        try:
            return self.logits(self._layer(tokens, states, positions, None)[:, -1])
        finally:
            self._model.set_attn_implementation(ours)

    def _layer(
        self, tokens: Tensor, states: Tensor, positions: Tensor, cache: BlockCache | None, **others: Any
    ) -> Tensor:
        """Compute the first head's layer as `MtpModel.forward` does, which returns only tokens and logits."""
        model: Any = self._model
        rows, rotary, table = model.embed_tokens(tokens).to(states.device), model.rotary_emb, None
        if rotary is not None:
            kind = {"layer_type": model.config.layer_types[0]} if hasattr(rotary, "layer_types") else {}
            # One table for each of text, height and width: before transformers 5.19, Qwen's rotary needs all three.
            axes = positions.expand(3, 1, -1) if hasattr(rotary, "mrope_section") else positions
            table = rotary(rows, position_ids=axes, **kind)
        masks = model.create_masks_for_mtp_layer(0, rows, cache, positions)
        others |= {CACHE_NAME: cache, **masks}
        output: Tensor = model.layers[0](
            rows, states, position_embeddings=table, position_ids=positions, **others
        )
        return model.shared_post_norm(output) if model.use_shared_post_norm else output
