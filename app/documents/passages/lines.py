"""The lines of a text that comes in parts, wherever those were cut."""

import unicodedata
from collections.abc import Iterable, Iterator
from typing import NamedTuple

LONGEST = 4_096
"""Characters of a line that are looked at together: some texts have no line ends at all."""
JOINERS = "\u200d\ufe0e\ufe0f"


class Line(NamedTuple):
    """A line with its end, or some of a very long one; `is_new` says that a line begins here."""

    start: int
    text: str
    is_new: bool = True

    @property
    def is_blank(self) -> bool:
        """Whether there is nothing on it."""
        return not self.text or self.text.isspace()


def lines_of(parts: Iterable[str]) -> Iterator[Line]:
    """The lines in turn: together they are the text."""
    start, is_new, rest = 0, True, ""
    for part in parts:
        *whole, rest = (rest + part).split("\n")
        for text in [one + "\n" for one in whole]:
            yield from _pieces(start, text, is_new)
            start, is_new = start + len(text), True
        while len(rest) >= 2 * LONGEST:
            size = whole_characters(rest, LONGEST)
            yield Line(start, rest[:size], is_new)
            start, rest, is_new = start + size, rest[size:], False
    if rest:
        yield from _pieces(start, rest, is_new)


def whole_characters(text: str, most: int) -> int:
    """How many code points of a text's beginning part no letter from its marks: `most`, or a few less."""
    end = most
    while end > most // 2 and end < len(text) and _belongs(text, end):
        end -= 1
    return end if end > most // 2 else most


def _pieces(start: int, text: str, is_new: bool) -> Iterator[Line]:
    at = 0
    while len(text) - at >= 2 * LONGEST:
        size = whole_characters(text[at : at + LONGEST + 1], LONGEST)
        yield Line(start + at, text[at : at + size], is_new)
        at, is_new = at + size, False
    yield Line(start + at, text[at:], is_new)


def _belongs(text: str, at: int) -> bool:
    """Whether what stands here belongs to what stands before it."""
    return bool(unicodedata.combining(text[at])) or text[at] in JOINERS or text[at - 1] == "\u200d"
