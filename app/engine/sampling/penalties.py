"""Changes a row's logits before a token is drawn, by penalties and biases. The types of grammars are here, too, so
that tools/gpu_report can import drafters without llguidance.

A change depends on the tokens before the row. So a row is changed only when verification reaches the row, and
the text is the same with lookahead on and off.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from app.engine.block.block import common_length
from app.engine.machine.hardware import uploaded
from app.values.logits import LogitsSettings
from app.values.messages import Sampling

Process = Callable[[Tensor, Sequence[int]], Tensor]
"""(logits [vocab] in float32, every token before them) -> logits [vocab]."""

FEW = 16
"""If at most this many tokens differ, counts are updated, not uploaded. Each token takes one or two kernels."""
ROOM = 1024
"""Number of different tokens that may be added between two uploads."""


@dataclass(frozen=True, slots=True)
class AllowedTokens:
    """The tokens that a grammar allows next, one bit for each, and the token that it forces: [] or [token]."""

    bits: bytes
    forced: list[int]

    def __contains__(self, token: int) -> bool:
        return token >> 3 < len(self.bits) and bool(self.bits[token >> 3] >> (token & 7) & 1)


Constraint = Callable[[Sequence[int], Callable[[], Sequence[int]]], AllowedTokens | None]
"""(tokens of the text, function that returns the guesses after them) -> the tokens that the grammar allows next;
None without a grammar."""


def unconstrained(_text: Sequence[int], _added: Callable[[], Sequence[int]]) -> None:
    """Return None, which allows every token."""


class Counts(NamedTuple):
    """Different tokens `ids` [n], and how often each occurs: `times` [n] in float32, which may be 0."""

    ids: Tensor
    times: Tensor

    def changed(self, logits: Tensor, change: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
        """Return logits [vocab], changed by `change(logits [n], times [n])` for the tokens that occur."""
        scores = logits[self.ids]
        return logits.index_copy(0, self.ids, torch.where(self.times > 0, change(scores, self.times), scores))


class TokenCounts:
    """Counts the tokens before each row of one reply, on the logits' device.

    The histories of a reply's rows differ by few tokens, so the counts are updated from row to row. Each differing
    token is an argument of a kernel, and needs no upload."""

    def __init__(self, start: int = 0) -> None:
        """Count only tokens from index `start` of a history on."""
        self._start = start
        self._counted: list[int] = []
        self._indexes: dict[int, int] = {}  # each token's index in the two tensors
        self._ids, self._times = torch.empty(0, dtype=torch.long), torch.empty(0)

    @torch.inference_mode()
    def before(self, history: Sequence[int], device: torch.device) -> Counts:
        """Count the tokens of this history on the device. The next call overwrites the returned counts."""
        tokens = list(history[self._start :])
        same = common_length(self._counted, tokens)
        gone, new = self._counted[same:], tokens[same:]
        self._counted = tokens
        has_room = len(self._indexes) + len(new) <= len(self._ids)
        if self._ids.device != device or not has_room or len(gone) + len(new) > FEW:
            found = Counter(tokens)
            self._indexes = {token: index for index, token in enumerate(found)}
            both = np.zeros((2, len(found) + ROOM), dtype=np.float32)  # float32 holds ids below 2**24 exactly
            both[:, : len(found)] = list(found), list(found.values())
            ids, self._times = uploaded(both, device)
            self._ids = ids.long()
        else:
            for token in gone:
                self._times[self._indexes[token]].sub_(1)
            for token in new:
                if token not in self._indexes:
                    self._ids[len(self._indexes)].fill_(token)
                    self._indexes[token] = len(self._indexes)
                self._times[self._indexes[token]].add_(1)
        known = len(self._indexes)
        return Counts(self._ids[:known], self._times[:known])


def penalised(logits: Tensor, counts: Counts, penalty: float) -> Tensor:
    """Return logits [vocab] with CTRL's penalty on the tokens seen so far, which a penalty above 1 makes rarer."""
    return counts.changed(
        logits, lambda scores, _times: torch.where(scores < 0, scores * penalty, scores / penalty)
    )


def repetition_penalty(sampling: Sampling) -> list[Process]:
    """Make the process of the repetition penalty; [] without a penalty."""
    if sampling.repetition_penalty == 1:
        return []
    counts, penalty = TokenCounts(), sampling.repetition_penalty
    return [lambda logits, history: penalised(logits, counts.before(history, logits.device), penalty)]


def penalties(settings: LogitsSettings, prompt_tokens: int) -> Process:
    """Make the process of OpenAI's penalties for one reply: frequency (per occurrence) and presence (once)."""
    counts = TokenCounts(prompt_tokens)

    def process(logits: Tensor, history: Sequence[int]) -> Tensor:
        return counts.before(history, logits.device).changed(
            logits,
            lambda scores, times: scores - (settings.frequency_penalty * times + settings.presence_penalty),
        )

    return process


def biases(settings: LogitsSettings, vocabulary: int) -> Process:
    """Make the process that adds biases to the logits of tokens; ids outside the vocabulary are ignored."""
    known = [(token, bias) for token, bias in settings.logit_bias if token < vocabulary]
    # Ids and biases are uploaded together, because float32 holds ids below 2**24 exactly.
    both = np.array(known, dtype=np.float32).reshape(-1, 2).T

    @cache
    def on(device: torch.device) -> tuple[Tensor, Tensor]:
        ids, added = uploaded(both.copy(), device)
        return ids.long(), added

    def process(logits: Tensor, _history: Sequence[int]) -> Tensor:
        return logits.index_add(0, *on(logits.device))

    return process
