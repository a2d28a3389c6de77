"""A draft model with another tokenizer than its target's. Its text is re-tokenised word by word.

What it wrote is used as long as the text agrees with it, also in later steps. Where a guess of the pool leads
elsewhere, it writes another continuation after that guess. Its KV cache holds one line, as that of any draft model
(`draft_model.py`): for another line the common beginning is kept.
"""

import sys
from collections.abc import Sequence
from time import perf_counter

import torch
from torch import Tensor

from app.engine.block.block import common_length
from app.engine.drafters.continuation import Continuation, Translation
from app.engine.drafters.draft_model import LineReader, Proposal
from app.engine.drafters.retokenised_line import RetokenisedLine
from app.values.messages import Sampling


class RetokenisingDraftModel:
    """Proposes the next token after a text and guesses by what it writes greedily. `seconds` is its total time."""

    def __init__(self, reader: LineReader, name: str, translation: Translation) -> None:
        self.name, self.seconds = name, 0.0
        self.context = sys.maxsize  # in the target's tokens; the draft's own limit is checked in `_read`
        self._reader, self._translation = reader, translation
        self._line = RetokenisedLine(translation.target, translation.draft)
        self._text: Sequence[int] = ()
        self._fed: list[int] = []
        self._written: list[Continuation] = []

    def follow(self, text: Sequence[int]) -> int:
        """Begin a step after this text. Returns how many of its tokens are new."""
        read = self._line.tokens
        known = common_length(read, text)
        self._text = text
        self._written = [one for one in self._written if known == len(read) and one.goes_on(text)]
        return len(text) - known

    def propose(self, guesses: Sequence[int], sampling: Sampling) -> list[Proposal]:
        """The proposals after the text and these guesses, the likeliest first.

        [] where its context is full, or where they end with an incomplete character."""
        del sampling
        begun = perf_counter()
        line = [*self._text, *guesses]
        written = next((one for one in self._written if one.goes_on(line)), None) or self._write(guesses)
        found = written.proposed(len(line) - written.start)
        self.seconds += perf_counter() - begun
        return found

    def forget(self) -> None:
        """Forget the text."""
        self._reader.forget()
        self._line = RetokenisedLine(self._translation.target, self._translation.draft)
        self._text, self._fed, self._written = (), [], []

    def _write(self, guesses: Sequence[int]) -> Continuation:
        """The continuation of the text and these guesses."""
        self._line.follow(self._text)
        line = self._line.behind(guesses)
        found = Continuation(len(self._text), guesses, line, self._read, self._translation)
        self._written.append(found)
        return found

    def _read(self, line: list[int]) -> Tensor:
        """Logits [vocab] after a line; an empty tensor where the model cannot read it."""
        known = min(common_length(self._fed, line), len(line) - 1)
        if not line or len(line) > self._reader.context or max(line[known:]) >= self._reader.vocabulary:
            return torch.empty(0)
        self._fed = line
        return self._reader.read(line, known)
