"""How often each token came before a row, on the logits' device: what penalties are computed from.

The rows of a reply have nearly the same history. So the counts go from one row to the next by the few tokens that
are different, which need no upload: each goes with the kernel that counts it. A whole history is uploaded once.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from app.engine.block.block import common_length
from app.engine.machine.hardware import uploaded

FEW = 16
"""Different tokens up to which counts go on from those of another row: each is a kernel or two."""
ROOM = 1024
"""Tokens that may come to those of an upload before there is another one."""


class Counts(NamedTuple):
    """Tokens, each once, and how often each came: ids and times (float32) [n]. Some came no longer, 0 times."""

    ids: Tensor
    times: Tensor

    def changed(self, logits: Tensor, change: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
        """Logits [vocab], those of the tokens that came changed by (logits [n], times [n]) -> logits [n]."""
        scores = logits[self.ids]
        return logits.index_copy(0, self.ids, torch.where(self.times > 0, change(scores, self.times), scores))


class TokenCounts:
    """Counts that follow the rows of one reply."""

    def __init__(self, start: int = 0) -> None:
        """Tokens before the place `start` do not count."""
        self._start = start
        self._counted: list[int] = []
        self._places: dict[int, int] = {}  # of tokens in the two tensors
        self._ids, self._times = torch.empty(0, dtype=torch.long), torch.empty(0)

    @torch.inference_mode()
    def before(self, history: Sequence[int], device: torch.device) -> Counts:
        """Of the tokens of this history, on the device. Good until the next call."""
        tokens = list(history[self._start :])
        same = common_length(self._counted, tokens)
        gone, new = self._counted[same:], tokens[same:]
        self._counted = tokens
        has_room = len(self._places) + len(new) <= len(self._ids)
        if self._ids.device != device or not has_room or len(gone) + len(new) > FEW:
            self._upload(tokens, device)
        else:
            self._go_on(gone, new)
        known = len(self._places)
        return Counts(self._ids[:known], self._times[:known])

    def _upload(self, tokens: list[int], device: torch.device) -> None:
        found = Counter(tokens)
        self._places = {token: place for place, token in enumerate(found)}
        both = np.zeros((2, len(found) + ROOM), dtype=np.float32)  # vocabularies are smaller than 2**24
        both[:, : len(found)] = list(found), list(found.values())
        ids, self._times = uploaded(both, device)
        self._ids = ids.long()

    def _go_on(self, gone: list[int], new: list[int]) -> None:
        for token in gone:
            self._times[self._places[token]].sub_(1)
        for token in new:
            if token not in self._places:
                self._ids[len(self._places)].fill_(token)
                self._places[token] = len(self._places)
            self._times[self._places[token]].add_(1)


def penalised(logits: Tensor, counts: Counts, penalty: float) -> Tensor:
    """Logits [vocab] with the tokens seen so far made less likely (CTRL, section 4.1)."""
    return counts.changed(
        logits, lambda scores, _times: torch.where(scores < 0, scores * penalty, scores / penalty)
    )
