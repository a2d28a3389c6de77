"""A head for multi-token prediction: a layer that checkpoints carry, to guess the token after the next one.

DeepSeek-V3 (2.2 of its report), GLM-4.5 and others have one or more behind their last layer. Its row of a token is
made of the token's embedding and of what the target handed to its LM head one token before. It attends to its own
earlier rows. Embedding, LM head and rotary table are the target's:

    text        A    B    C          and a guess, d
    token            B    C          d
    state            A'   B'         the head's own output behind C
    says behind      A B  A B C      A B C d

For a guess behind a guess there is no such state yet: the head's own output takes its place, as in EAGLE (Li et al.
2024) and in vLLM. Rows of guesses that were accepted are read again with the target's states. So a head answers as
a small model does that reads the text (`lookahead/draft_model.py`), for a layer and the LM head of the target.
"""

from collections.abc import Sequence

import torch
from torch import Tensor
from transformers.modeling_layers import MtpModel

from app.engine.attention import Attend, BlockView
from app.engine.block import chain_block
from app.engine.hidden_states import HiddenStates
from app.engine.kv_cache import BlockCache

CHUNK = 512
"""Tokens of the text that are read in one pass."""


class MtpHead:
    """Reads lines behind what its target has committed."""

    def __init__(
        self, model: MtpModel, target: HiddenStates, attend: Attend, context: int, vocabulary: int
    ) -> None:
        """Of several heads the first one is asked."""
        self.context, self.vocabulary = context, vocabulary
        self._model, self._target, self._attend = model, target, attend
        self._cache = BlockCache()
        self._own = HiddenStates(self._cache, layer=1)
        self._device = model.device
        # Tokens of the newest line whose rows are made of the target's states. The first token has no row.
        self._told = 1

    @torch.inference_mode()
    def read(self, line: Sequence[int], known: int) -> Tensor:
        """Logits [vocab] behind a line that begins with `known` tokens of the newest one; none behind one token."""
        told = min(len(self._target) + 1, len(line))
        here = max(known, 1)
        if self._told < min(here, told):
            here = self._told
        self._cache.rewind(here - 1)
        self._told = min(here, told)
        output = torch.empty(0)
        while here < len(line):
            end = min(here + CHUNK, told) if here < told else here + 1
            output = self._pass(line[here:end], here)
            self._told, here = min(end, told), end
        return self._logits(output)

    def forget(self) -> None:
        """Drop the line."""
        self._cache.rewind(0)
        self._told = 1

    def _pass(self, tokens: Sequence[int], start: int) -> Tensor:
        """Read these tokens, the first at position `start`; returns their outputs [1, n, width]."""
        rows = len(tokens)
        block = chain_block(tokens, start - 1, wanted=())
        view = BlockView(block, self._cache.length, self._attend, self._device)
        output: Tensor = self._model.forward_layer(
            0,
            self._states(start - 1, rows),
            position_ids=view.positions[None] + 1,
            mtp_cache=self._cache,  # type: ignore[arg-type]  # masks alone need transformers' own
            input_ids=torch.tensor([tokens], device=self._device),
            block=view,
        )
        self._own.write(output)
        self._cache.commit(range(rows))
        return output

    def _states(self, begin: int, rows: int) -> Tensor:
        """Behind so many tokens from this one on: the target's, or where it has none the head's own."""
        if begin + rows <= len(self._target):
            return self._target.rows(begin, begin + rows)
        return self._own.rows(begin - 1, begin - 1 + rows)

    def _logits(self, output: Tensor) -> Tensor:
        if not len(output):
            return output
        logits: Tensor = self._model._project_to_logits(output[:, -1])
        return logits[0]
