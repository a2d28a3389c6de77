"""Reads lines with a head: layers that guess from hidden states of their target, such as checkpoints carry.

A head's row of a token is made of the token's embedding and of states that the target had one token before. It
attends to its own earlier rows:

    text        A B    C          and a guess, d
    token         B    C          d
    state         A'   B'         the head's own output behind C
    says behind   A B  A B C      A B C d

For a guess behind a guess there is no such state yet: the head's own output takes its place, as in EAGLE (Li et al.
2024) and in vLLM. Rows of guesses that were accepted are read again with the target's states. So a head answers as
a small model does that reads the text (`lookahead/draft_model.py`).
"""

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor

from app.engine.attention import Attend, BlockView
from app.engine.block.block import chain_block
from app.engine.runner.hidden_states import HiddenStates, write_states
from app.engine.runner.kv_cache import BlockCache

CHUNK = 512
"""Tokens of the text that are read in one pass."""


class Head(Protocol):
    """Layers behind a target, `num_layers` of which keep keys and values."""

    num_layers: int

    @property
    def device(self) -> torch.device:
        """Where it computes."""

    def joined(self, states: Tensor) -> Tensor:
        """What a row takes of its target's states [1, n, all of them]: [1, n, width]."""

    def output(self, tokens: Tensor, states: Tensor, view: BlockView, cache: BlockCache) -> Tensor:
        """Rows [1, n, width] of these tokens [1, n] with joined states, or with outputs in their place.

        The view's positions are the states'."""

    def logits(self, output: Tensor) -> Tensor:
        """Of one row [1, width]: [1, vocab] of the target's tokens, minus infinity for those it never names."""

    def expected(self, text: Sequence[int], states: Tensor) -> Tensor:
        """Logits [1, vocab] behind a text, in one pass without our cache and attention: what a trial goes by."""


class HeadReader:
    """Reads lines behind what its target has committed."""

    def __init__(
        self, head: Head, target: HiddenStates, attend: Attend, context: int, vocabulary: int
    ) -> None:
        """`vocabulary` is the target's, whose tokens are read."""
        self.context, self.vocabulary = context, vocabulary
        self._head, self._target, self._attend = head, target, attend
        self._cache = BlockCache()
        self._own = HiddenStates(self._cache, head.num_layers)
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
        return self._head.logits(output[:, -1])[0] if len(output) else output

    def forget(self) -> None:
        """Drop the line."""
        self._cache.rewind(0)
        self._told = 1

    def _pass(self, tokens: Sequence[int], start: int) -> Tensor:
        """Read these tokens, the first at position `start`; returns their outputs [1, n, width]."""
        rows, device = len(tokens), self._head.device
        block = chain_block(tokens, start - 1, wanted=())
        view = BlockView(block, self._cache.length, self._attend, device)
        states = self._states(start - 1, rows)
        output = self._head.output(torch.tensor([tokens], device=device), states, view, self._cache)
        write_states(self._cache, self._head.num_layers, output)
        self._cache.commit(range(rows))
        return output

    def _states(self, begin: int, rows: int) -> Tensor:
        """Behind so many tokens from this one on: the target's, or where it has none the head's own."""
        if begin + rows <= len(self._target):
            return self._head.joined(self._target.rows(begin, begin + rows))
        return self._own.rows(begin - 1, begin - 1 + rows)
