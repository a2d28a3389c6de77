"""Runs a draft model: a small model that guesses the next tokens of a larger model, its target. The target has the
same tokenizer and checks the guesses (Leviathan et al. 2023).

The draft model's KV cache has one sequence of tokens, the text and some guesses:

    text A B, proposals after A B, A B c, A B c d     the cache has A B c d
    text A B c x, proposals after A B c x             d is removed, x is fed

The draft model draws with the reply's noise (`sampling.py`), so that it tends to expect the token that is sampled.
"""

from bisect import bisect_right
from collections.abc import Sequence
from time import perf_counter
from typing import Protocol

import torch
from torch import Tensor

from app.engine.block.block import chain_block, common_length
from app.engine.block.context_entries import GAPS, LEADS
from app.engine.runner.model_runner import ModelRunner
from app.engine.runner.runner import BlockRunner
from app.engine.sampling.penalties import TokenCounts, penalised
from app.engine.sampling.sampling import gumbel, survivors
from app.values.messages import Sampling

Proposal = tuple[int, int]
"""(token, gap class): 8 to 15 for the best token, by its lead in logits; 0 to 7 for other tokens, by their distance
to the best token."""

PROPOSALS = 8
"""Maximum number of tokens that are proposed at once."""
DRAWN_FROM = 256
"""The number of likeliest tokens from which a draft is drawn when the reply is sampled."""
FED_AS_STEP = 16
"""Up to this many tokens are fed as the rows of a step; more are fed as a prompt."""


class SequenceReader(Protocol):
    """Computes draft logits, with a small model or with a head of the target (`head_reader.py`)."""

    context: int

    @property
    def vocabulary(self) -> int:
        """The number of token ids that can be read, from 0 on."""

    def read(self, tokens: Sequence[int], known: int) -> Tensor:
        """Compute logits [vocab] after these tokens, of which the first `known` are those of the previous call."""

    def forget(self) -> None:
        """Forget the tokens of the previous call, so that the next call reads all of its tokens."""


class RunnerSequenceReader:
    """Computes draft logits with a small model."""

    def __init__(self, runner: BlockRunner) -> None:
        self.context, self.vocabulary = runner.context, runner.vocabulary
        self._runner = runner

    def read(self, tokens: Sequence[int], known: int) -> Tensor:
        """Compute logits [vocab] after tokens. More than FED_AS_STEP new tokens are read as a prompt."""
        rest = tokens[known:]
        self._runner.rewind(known)
        if len(rest) > FED_AS_STEP:
            return prefilled(self._runner, tokens)
        logits = self._runner.forward(chain_block(rest, known, (len(rest) - 1,)))
        self._runner.commit(range(len(rest)))
        return logits[0]

    def forget(self) -> None:
        self._runner.forget()


class DraftModel:
    """Proposes tokens that may follow a text and guesses. `seconds` is the total time of all proposals."""

    def __init__(self, reader: SequenceReader, name: str, vocabulary: int) -> None:
        """Propose only token ids below `vocabulary`, the size of the target's vocabulary."""
        self.name = name
        self.context = reader.context
        self.seconds = 0.0
        self._reader = reader
        self._shared = min(vocabulary, reader.vocabulary)
        self._fed: list[int] = []
        self._counts = TokenCounts()
        self._text: Sequence[int] = ()
        self._known = 0  # how many leading tokens of the text are in the cache

    def follow(self, text: Sequence[int]) -> int:
        """Begin a step after this text; return how many of its tokens are not fed yet."""
        self._text = text
        self._known = common_length(self._fed, text)
        if self._known < len(text):
            del self._fed[self._known :]  # leaves a prefix of the text, for which `common_length` is fast
        return len(text) - self._known

    def propose(self, guesses: Sequence[int], sampling: Sampling) -> list[Proposal]:
        """Propose tokens that may follow the text and these guesses, the expected token first.

        Returns [] if the context is too short, if a token has no embedding, or if a head has nothing to read."""
        tokens = [*self._text, *guesses] if guesses else list(self._text)
        if len(tokens) > self.context:
            return []
        begun, found = perf_counter(), list[Proposal]()
        if len(logits := self._logits(tokens, guesses)):
            scores, penalty = logits[: self._shared].float(), sampling.repetition_penalty
            if penalty != 1:
                scores = penalised(scores, self._counts.before(tokens, scores.device), penalty)
            found = proposals(scores, tokens, sampling)
        self.seconds += perf_counter() - begun
        return found

    def forget(self) -> None:
        """Drop the text and the reader's cached tokens."""
        self._reader.forget()
        self._fed, self._text, self._known = [], (), 0

    def _logits(self, tokens: list[int], guesses: Sequence[int]) -> Tensor:
        """Feed the tokens that are not cached yet; return the logits [vocab] after all tokens, or an empty tensor
        if a token cannot be fed."""
        here = self._known
        if here == len(self._text):
            here += common_length(self._fed[here:], guesses)
        here = min(here, len(tokens) - 1)  # the last token is always fed, because its logits are needed
        if max(tokens[here:]) >= self._reader.vocabulary:
            return torch.empty(0)
        logits = self._reader.read(tokens, here)
        self._fed, self._known = tokens, len(self._text)
        return logits


def prefilled(runner: ModelRunner, tokens: Sequence[int]) -> Tensor:
    """Read tokens as a prompt, without reporting progress; return the logits [vocab] after them."""
    reading = runner.prefill(tokens)
    while True:
        try:
            next(reading)
        except StopIteration as read:
            logits: Tensor = read.value
            return logits


def proposals(logits: Tensor, history: Sequence[int], sampling: Sampling) -> list[Proposal]:
    """Propose the next tokens after this history, drawn as the reply's tokens are, the expected token first.

    Penalties were applied to the logits already; filters are applied to the DRAWN_FROM likeliest tokens."""
    scores = logits.float()
    if sampling.temperature == 0:
        values, ids = largest(scores, PROPOSALS)
        return _ranked(ids.tolist(), values.tolist())
    values, likely = largest(scores, DRAWN_FROM)
    kept, left = survivors(values / sampling.temperature, sampling)
    ids = likely[kept]
    drawn = left.double() + gumbel(sampling.seed, len(history), ids)
    best = drawn.topk(min(PROPOSALS, len(drawn)))
    return _ranked(ids[best.indices].tolist(), (best.values * sampling.temperature).tolist())


def largest(scores: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return the `count` largest scores and their ids, best first, in one copy to the host."""
    values, ids = scores.topk(min(count, len(scores)))
    values, exact = torch.stack((values, ids.float())).cpu()  # float32 holds ids below 2**24 exactly
    return values, exact.long()


def _ranked(ids: list[int], scores: list[float]) -> list[Proposal]:
    """Pair each token with its gap class. A token without competitors gets the largest lead."""
    gaps = [scores[0] - score for score in scores]
    lead = gaps[1] if len(gaps) > 1 else GAPS[-1]
    classes = [LEADS + bisect_right(GAPS, lead), *(bisect_right(GAPS, gap) for gap in gaps[1:])]
    return list(zip(ids, classes, strict=True))
