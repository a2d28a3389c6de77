"""A head for multi-token prediction: a layer that checkpoints carry, to guess the token after the next one.

DeepSeek-V3 (2.2 of its report), GLM-4.5 and others have one or more behind their last layer. It reads what the
target handed to its LM head. Embedding, LM head and rotary table are the target's.
"""

from collections.abc import Sequence

import torch
from torch import Tensor
from transformers.modeling_layers import MtpModel

from app.engine.attention import BlockView
from app.engine.runner.kv_cache import BlockCache


class MtpHead:
    """The first of a checkpoint's heads."""

    num_layers = 1

    def __init__(self, model: MtpModel) -> None:
        self._model = model

    @property
    def device(self) -> torch.device:
        """That of its weights."""
        device: torch.device = self._model.device
        return device

    def joined(self, states: Tensor) -> Tensor:
        """The one state as it is."""
        return states

    def output(self, tokens: Tensor, states: Tensor, view: BlockView, cache: BlockCache) -> Tensor:
        """One pass of its layer."""
        output: Tensor = self._model.forward_layer(
            0,
            states,
            position_ids=view.positions[None] + 1,
            mtp_cache=cache,  # type: ignore[arg-type]  # masks alone need transformers' own
            input_ids=tokens,
            block=view,
        )
        return output

    def logits(self, output: Tensor) -> Tensor:
        """By the target's LM head."""
        logits: Tensor = self._model._project_to_logits(output)
        return logits

    @torch.inference_mode()
    def expected(self, text: Sequence[int], states: Tensor) -> Tensor:
        """By transformers' own attention, written out and without a cache."""
        ours = self._model.config._attn_implementation
        self._model.set_attn_implementation("eager")
        try:
            output = self._model.forward_layer(
                0,
                states,
                position_ids=torch.arange(1, len(text), device=states.device)[None],
                mtp_cache=None,
                input_ids=torch.tensor([text[1:]], device=states.device),
            )
            return self.logits(output[:, -1])
        finally:
            self._model.set_attn_implementation(ours)
