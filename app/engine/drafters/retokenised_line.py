"""A text that grows token by token, re-tokenised by another tokenizer.

The tokens of a word are final once the next word has begun. So when the text grows, only what follows the last
border between words is tokenised again. With | for borders:

    text      The trip to Jap        draft's tokens   The| trip| to| J ap
    and then  The trip to Japan is                    The| trip| to| Japan| is

Control tokens are translated where both tokenizers spell them alike, and where they begin or end texts. Others are
left out. Each of them ends a word.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from app.engine.block.block import common_length
from app.engine.text.text_tokenizer import HALF, LONGEST_CHARACTER, TextTokenizer

BORDER = re.compile(r"(?<=\S)(?= )|(?<=[^\W_])(?=\n)|(?<=\n)(?=\w)")
"""Borders that no tokenizer's token crosses, whatever follows."""


@dataclass(frozen=True, slots=True)
class _Mark:
    """A state to return to when a text turns out otherwise: how far it was read."""

    tokens: int  # of the target's tokens, those up to the last whole character
    closed: int  # of the draft's tokens, those that are final
    word: str = ""  # the text after the final ones
    before: tuple[int, ...] = ()  # the target's tokens that are decoded with the next ones


class RetokenisedLine:
    """The newest text, in the tokens of another tokenizer."""

    def __init__(self, source: TextTokenizer, to: TextTokenizer) -> None:
        self._source, self._to = source, to
        self._controls = shared_controls(source, to)
        self.tokens: list[int] = []
        """The text in its own tokens."""
        self._closed = list(to.begin)
        self._marks = [_Mark(0, len(to.begin))]

    @property
    def is_whole(self) -> bool:
        """Whether the text ends with a whole character."""
        return self._marks[-1].tokens == len(self.tokens)

    def follow(self, tokens: Sequence[int]) -> None:
        """Read the text as it is now."""
        same = common_length(self.tokens, tokens)
        while self._marks[-1].tokens > same:
            self._marks.pop()
        self.tokens = list(tokens)
        mark = self._marks[-1]
        del self._closed[mark.closed :]
        for begin, end in self._runs(mark.tokens):
            mark = self._read(mark, begin, end)
            if end < len(self.tokens):
                mark = self._control(mark, end)
        if mark != self._marks[-1]:
            self._marks.append(mark)

    def behind(self, guesses: Sequence[int]) -> list[int]:
        """The draft's tokens of the text and these guesses; [] where they end with an incomplete character."""
        mark = self._marks[-1]
        said = self._source.said(mark.before, guesses) if guesses else ""
        if not self.is_whole or said.endswith(HALF) or any(one in self._source.controls for one in guesses):
            return []
        return [*self._closed, *self._encoded(mark, mark.word + said)]

    def _runs(self, begin: int) -> Iterator[tuple[int, int]]:
        """The begin and the end of each text between control tokens, from a place on."""
        for place in range(begin, len(self.tokens)):
            if self.tokens[place] in self._source.controls:
                yield begin, place
                begin = place + 1
        yield begin, len(self.tokens)

    def _read(self, mark: _Mark, begin: int, end: int) -> _Mark:
        """The mark after the tokens from `begin` to `end`, or after the last whole character of their text."""
        text, end = self._whole(mark.before, begin, end)
        if end == begin:
            return mark
        text = mark.word + text
        borders = [found.start() for found in BORDER.finditer(text)]
        border = borders[-1] if borders else 0
        self._closed += self._encoded(mark, text[:border])
        before = self._source.tail([*mark.before, *self.tokens[begin:end]])
        return _Mark(end, len(self._closed), text[border:], tuple(before))

    def _whole(self, before: Sequence[int], begin: int, end: int) -> tuple[str, int]:
        """The text of these tokens, and the end of those it is from: without an incomplete last character."""
        for held in range(min(LONGEST_CHARACTER, end - begin)):
            text = self._source.said(before, self.tokens[begin : end - held])
            if not text.endswith(HALF):
                return text, end - held
        if end - begin < LONGEST_CHARACTER:
            return "", begin
        return self._source.said(before, self.tokens[begin:end]), end

    def _control(self, mark: _Mark, place: int) -> _Mark:
        """The mark after the control token at this place."""
        self._closed += self._encoded(mark, mark.word)
        known = self._controls.get(self.tokens[place])
        if (
            known is not None and [known] != self._closed
        ):  # a template may begin with what every text begins with
            self._closed.append(known)
        return _Mark(place + 1, len(self._closed))

    def _encoded(self, mark: _Mark, text: str) -> list[int]:
        """The tokens of a text that follows what is final at a mark."""
        if not text:
            return []
        return self._to.first(text) if mark.closed == len(self._to.begin) else self._to.following(text)


def shared_controls(source: TextTokenizer, to: TextTokenizer) -> dict[int, int]:
    """Control tokens of one tokenizer to the other's: those that are spelled alike, begin a text or end one."""
    spelled = {name: number for number, name in to.controls.items()}
    ends = zip(source.ends, to.ends, strict=True)
    found = {one: other for one, other in ends if one is not None and other is not None}
    return found | {number: spelled[name] for number, name in source.controls.items() if name in spelled}
