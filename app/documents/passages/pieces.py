"""What passages are put together from: pieces that cover a text without a gap, none longer than a sentence or a
line (or a block of code that is kept whole), each with how good a place its beginning is to begin a passage."""

import re
from collections.abc import Iterator
from enum import IntEnum
from typing import NamedTuple

from app.documents.passages.lines import whole_characters


class Rank(IntEnum):
    """What begins where a piece begins; a passage rather begins at a higher one."""

    WORD = 0
    LINE = 1
    SENTENCE = 2
    ITEM = 3
    BLOCK = 4
    SECTION = 5


class Piece(NamedTuple):
    """Some characters of a text from `start` on; `heading` is the path of headings that they stand below.

    A tuple, since a passage is made of dozens."""

    start: int
    text: str
    rank: Rank
    weight: int
    heading: str = ""


LONGEST = 200
"""Weight of a piece, which may be a part of a longer sentence; code that is kept whole may have more."""
WIDE_WEIGHT = 3
"""A character of a script without spaces says about as much as three letters, and takes as many tokens."""
WIDE = re.compile(
    "[\u1100-\u11ff\u2e80-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff]"
)
PAUSE = re.compile("[\\s\u3001\uff0c\uff1b\uff1a]")


def weight_of(text: str) -> int:
    """How long a text is for a reader: letters, wide characters by their weight."""
    return len(text) if text.isascii() else len(text) + (WIDE_WEIGHT - 1) * len(WIDE.findall(text))


def split(start: int, text: str, rank: Rank, heading: str) -> Iterator[Piece]:
    """A text as pieces that are short enough, cut behind words where there are any."""
    if len(text) <= LONGEST and text.isascii():  # most are
        yield Piece(start, text, rank, len(text), heading)
        return
    at = 0
    while len(text) - at > LONGEST or weight_of(text[at:]) > LONGEST:
        size = _fitting(text, at)
        part = text[at : at + size]
        yield Piece(start + at, part, rank, weight_of(part), heading)
        at, rank = at + size, Rank.WORD
    if at < len(text):
        yield Piece(start + at, text[at:], rank, weight_of(text[at:]), heading)


def _fitting(text: str, at: int) -> int:
    """How many characters from `at` on make a piece: as many as fit, to the last pause."""
    window = text[at : at + LONGEST]
    while (weight := weight_of(window)) > LONGEST:
        window = window[: len(window) * LONGEST // weight]
    pause = max((found.end() for found in PAUSE.finditer(window)), default=0)
    return pause if pause > len(window) // 2 else whole_characters(text[at : at + LONGEST + 1], len(window))
