"""A text in the tokens of another tokenizer, which follows it token by token.

Words do not change any more once the next one has begun, so only what stands behind the last of these borders is
read anew when the text goes on. With | for borders:

    text      The trip to Jap        draft's tokens   The| trip| to| J ap
    and then  The trip to Japan is                    The| trip| to| Japan| is

Control tokens that both tokenizers spell alike are kept, and those that begin and end texts; others are left out,
and end a word.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from app.engine.block import common_length
from app.engine.text_tokenizer import HALF, LONGEST_CHARACTER, TextTokenizer

BORDER = re.compile(r"(?<=\S)(?= )|(?<=[^\W_])(?=\n)|(?<=\n)(?=\w)")
"""Where no tokenizer joins what stands on both sides, whatever comes behind."""


@dataclass(frozen=True, slots=True)
class _Mark:
    """How far a text was read: a place to go back to."""

    tokens: int  # of the target's, which say whole characters
    closed: int  # of the draft's, which nothing changes any more
    word: str = ""  # the text behind them
    before: tuple[int, ...] = ()  # of the target's, to be decoded along with what comes next


class RetokenisedLine:
    """The newest text in the tokens of another tokenizer."""

    def __init__(self, source: TextTokenizer, to: TextTokenizer) -> None:
        self._source, self._to = source, to
        self._controls = shared_controls(source, to)
        self.tokens: list[int] = []
        """The text in the tokens that it was given in."""
        self._closed = list(to.begin)
        self._marks = [_Mark(0, len(to.begin))]

    @property
    def is_whole(self) -> bool:
        """Whether the text does not end with half a character."""
        return self._marks[-1].tokens == len(self.tokens)

    def follow(self, tokens: Sequence[int]) -> None:
        """The text has these tokens now."""
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
        """The draft's tokens of the text with these guesses; nothing where it ends with half a character."""
        mark = self._marks[-1]
        said = self._source.said(mark.before, guesses) if guesses else ""
        if not self.is_whole or said.endswith(HALF) or any(one in self._source.controls for one in guesses):
            return []
        return [*self._closed, *self._encoded(mark, mark.word + said)]

    def _runs(self, begin: int) -> Iterator[tuple[int, int]]:
        """Where texts between control tokens begin and end, from a place on."""
        for place in range(begin, len(self.tokens)):
            if self.tokens[place] in self._source.controls:
                yield begin, place
                begin = place + 1
        yield begin, len(self.tokens)

    def _read(self, mark: _Mark, begin: int, end: int) -> _Mark:
        """The mark behind a text's tokens from `begin` to `end`, as far as they say whole characters."""
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
        """What tokens say, and the end of those that say it: the last ones may say half a character."""
        for held in range(min(LONGEST_CHARACTER, end - begin)):
            text = self._source.said(before, self.tokens[begin : end - held])
            if not text.endswith(HALF):
                return text, end - held
        if end - begin < LONGEST_CHARACTER:
            return "", begin
        return self._source.said(before, self.tokens[begin:end]), end

    def _control(self, mark: _Mark, place: int) -> _Mark:
        """The mark behind the control token in this place."""
        self._closed += self._encoded(mark, mark.word)
        known = self._controls.get(self.tokens[place])
        if (
            known is not None and [known] != self._closed
        ):  # a template may begin with what every text begins with
            self._closed.append(known)
        return _Mark(place + 1, len(self._closed))

    def _encoded(self, mark: _Mark, text: str) -> list[int]:
        """A text behind what is closed at a mark."""
        if not text:
            return []
        return self._to.first(text) if mark.closed == len(self._to.begin) else self._to.following(text)


def shared_controls(source: TextTokenizer, to: TextTokenizer) -> dict[int, int]:
    """Control tokens of one tokenizer as the other's: those that are spelled alike, and those at both ends."""
    spelled = {name: number for number, name in to.controls.items()}
    ends = zip(source.ends, to.ends, strict=True)
    found = {one: other for one, other in ends if one is not None and other is not None}
    return found | {number: spelled[name] for number, name in source.controls.items() if name in spelled}
