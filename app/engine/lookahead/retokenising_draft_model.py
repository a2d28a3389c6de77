"""A draft model with another tokenizer than its target's: text goes to it, and comes back as words.

What it wrote stays good as long as the text goes that way, also from step to step. Where a guess of the pool leads
elsewhere, it is asked behind that guess as behind any text. Its KV cache holds one line, as that of any draft model
(`draft_model.py`): of another line the common beginning is kept.
"""

import sys
from collections.abc import Sequence
from time import perf_counter

import torch
from torch import Tensor

from app.engine.block import common_length
from app.engine.lookahead.continuation import Continuation, Translation
from app.engine.lookahead.draft_model import LineReader, Proposal
from app.engine.lookahead.retokenised_line import RetokenisedLine
from app.messages import Sampling


class RetokenisingDraftModel:
    """Says what may come next behind a text and guesses: what it writes greedily. `seconds` add up."""

    def __init__(self, reader: LineReader, name: str, translation: Translation) -> None:
        self.name, self.seconds = name, 0.0
        self.context = sys.maxsize  # how many tokens a text has for it shows when it reads it
        self._reader, self._translation = reader, translation
        self._line = RetokenisedLine(translation.target, translation.draft)
        self._text: Sequence[int] = ()
        self._fed: list[int] = []
        self._written: list[Continuation] = []

    def follow(self, text: Sequence[int]) -> int:
        """A step behind this text begins; returns how many of its tokens were not read yet."""
        read = self._line.tokens
        known = common_length(read, text)
        self._text = text
        self._written = [one for one in self._written if known == len(read) and one.goes_on(text)]
        return len(text) - known

    def propose(self, guesses: Sequence[int], sampling: Sampling) -> list[Proposal]:
        """What may come behind the text and these guesses, the expected token first.

        Nothing where it has no position left, or where they end with half a character."""
        del sampling
        begun = perf_counter()
        line = [*self._text, *guesses]
        written = next((one for one in self._written if one.goes_on(line)), None) or self._write(guesses)
        found = written.proposed(len(line) - written.start)
        self.seconds += perf_counter() - begun
        return found

    def forget(self) -> None:
        """Drop the text."""
        self._reader.forget()
        self._line = RetokenisedLine(self._translation.target, self._translation.draft)
        self._text, self._fed, self._written = (), [], []

    def _write(self, guesses: Sequence[int]) -> Continuation:
        """What is written behind the text and these guesses."""
        self._line.follow(self._text)
        line = self._line.behind(guesses)
        found = Continuation(len(self._text), guesses, line, self._read, self._translation)
        self._written.append(found)
        return found

    def _read(self, line: list[int]) -> Tensor:
        """Logits [vocab] behind a line; none where it cannot be fed."""
        known = min(common_length(self._fed, line), len(line) - 1)
        if not line or len(line) > self._reader.context or max(line[known:]) >= self._reader.vocabulary:
            return torch.empty(0)
        self._fed = line
        return self._reader.read(line, known)
