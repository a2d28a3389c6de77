"""Reads lines with a head: layers that guess from hidden states of their target, such as checkpoints carry.

A head's row of a token is made of the token's embedding and of states that the target had one token before. It
attends to its own earlier rows:

    text             A B    C          and a guess, d
    token              B    C          d
    state              A'   B'         the head's own output after C
    predicts after   A B    A B C      A B C d

For a guess after a guess there is no such state yet: the head's own output takes its place, as in EAGLE (Li et al.
2024) and in vLLM. Rows of guesses that were accepted are read again with the target's states. So a head answers
like a small model that reads the text (`draft_model.py`).
"""

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor
from transformers.modeling_layers import MtpModel

from app.engine.attention import Attend, BlockView
from app.engine.block.block import chain_block
from app.engine.runner.hidden_states import HiddenStates, write_states
from app.engine.runner.kv_cache import BlockCache

CHUNK = 512
"""Tokens of the text that are read in one pass."""


class Head(Protocol):
    """Layers that read a target's states; `num_layers` of them keep keys and values."""

    num_layers: int

    @property
    def device(self) -> torch.device:
        """The device of its weights."""

    def joined(self, states: Tensor) -> Tensor:
        """Join the target's states [1, n, all of them] into what a row takes of them [1, n, width]."""

    def output(self, tokens: Tensor, states: Tensor, view: BlockView, cache: BlockCache) -> Tensor:
        """Compute rows [1, n, width] of tokens [1, n] with joined states, or with outputs in their place.

        The view has the positions of the states."""

    def logits(self, output: Tensor) -> Tensor:
        """Compute logits [1, vocab] of one row [1, width]; minus infinity for tokens it never predicts."""

    def expected(self, text: Sequence[int], states: Tensor) -> Tensor:
        """Compute logits [1, vocab] after a text without our cache and attention, for a trial to compare."""


class HeadReader:
    """Reads lines that go on from what its target has committed."""

    def __init__(
        self, head: Head, target: HiddenStates, attend: Attend, context: int, vocabulary: int
    ) -> None:
        """`vocabulary` is the target's."""
        self.context, self.vocabulary = context, vocabulary
        self._head, self._target, self._attend = head, target, attend
        self._cache = BlockCache()
        self._own = HiddenStates(self._cache, head.num_layers)
        # How many tokens of the newest line have rows of the target's states. The first token has no row.
        self._true_rows = 1

    @torch.inference_mode()
    def read(self, line: Sequence[int], known: int) -> Tensor:
        """Compute logits [vocab] after a line that begins with `known` tokens of the newest one.

        After a single token there are none."""
        true_rows = min(len(self._target) + 1, len(line))
        here = max(known, 1)
        if self._true_rows < min(here, true_rows):
            here = self._true_rows
        self._cache.rewind(here - 1)
        self._true_rows = min(here, true_rows)
        output = torch.empty(0)
        while here < len(line):
            end = min(here + CHUNK, true_rows) if here < true_rows else here + 1
            output = self._pass(line[here:end], here)
            self._true_rows, here = min(end, true_rows), end
        return self._head.logits(output[:, -1])[0] if len(output) else output

    def forget(self) -> None:
        """Drop the line."""
        self._cache.rewind(0)
        self._true_rows = 1

    def _pass(self, tokens: Sequence[int], start: int) -> Tensor:
        """Read these tokens from position `start` on; returns their outputs [1, n, width]."""
        rows, device = len(tokens), self._head.device
        block = chain_block(tokens, start - 1, wanted=())
        view = BlockView(block, self._cache.length, self._attend, device)
        states = self._states(start - 1, rows)
        output = self._head.output(torch.tensor([tokens], device=device), states, view, self._cache)
        write_states(self._cache, self._head.num_layers, output)
        self._cache.commit(range(rows))
        return output

    def _states(self, begin: int, rows: int) -> Tensor:
        """The joined states of `rows` tokens from `begin` on: the target's, or the head's own if it has none."""
        if begin + rows <= len(self._target):
            return self._head.joined(self._target.rows(begin, begin + rows))
        return self._own.rows(begin - 1, begin - 1 + rows)


class MtpHead:
    """The first head for multi-token prediction that a checkpoint carries (DeepSeek-V3, GLM-4.5 and others).

    Its layer guesses the token after the next one from what the target hands to its LM head. Embedding, LM head and
    rotary table are the target's."""

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
        logits: Tensor = self._model._project_to_logits(output)
        return logits

    @torch.inference_mode()
    def expected(self, text: Sequence[int], states: Tensor) -> Tensor:
        # transformers' own attention is written out, and there is no cache.
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
