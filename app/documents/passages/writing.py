"""Writing as pieces: plain text and Markdown, and what was read from other files as such.

# Eggs               SECTION   "Eggs"
                     (belongs to the line above)
Boil them. Peel      BLOCK     and SENTENCE, for what is behind the full stop
them under water.    LINE      the sentence goes on
- salt               ITEM
```                  BLOCK     to the end of the code, where that fits into a passage
"""

import re
from collections.abc import Iterable, Iterator
from itertools import chain, pairwise

from app.documents.passages.headings import (
    Heading,
    HeadingPath,
    marked_heading,
    numbered_heading,
    underlined_heading,
)
from app.documents.passages.lines import Line
from app.documents.passages.pieces import Piece, Rank, split, weight_of
from app.documents.passages.sentences import ends_sentence, sentences

FENCE = re.compile(r"\s{0,3}(`{3,}|~{3,})")
ITEM = re.compile(r"\s*(?:[-*+\u2022]|\d{1,9}[.)])\s|\s*\||\s*>")
PAGE_BREAK = "\f"
WHOLE_CODE = 1_400
"""Weight of a block of code that is kept whole."""


def scan_writing(lines: Iterable[Line], first_page: int = 0) -> Iterator[Piece]:
    """The pieces of a text that is written to be read."""
    yield from _Scan(first_page).pieces(lines)


class _Scan:
    """What is known of the lines so far."""

    def __init__(self, first_page: int) -> None:
        self._path = HeadingPath(first_page)
        self._begins_block = True
        self._ends_sentence = True
        self._underline = -1
        self._fence = ""
        self._code: list[Line] = []
        self._code_weight = 0
        self._is_behind_blank = False

    def pieces(self, lines: Iterable[Line]) -> Iterator[Piece]:
        for line, below in pairwise(chain(lines, [Line(0, "")])):
            if line.text.startswith(PAGE_BREAK):
                self._path.turn_page()
                self._begins_block = True
            yield from self._code_line(line) if self._fence else self._line(line, below)
        yield from self._flush()

    def _line(self, line: Line, below: Line) -> Iterator[Piece]:
        if line.is_blank or line.start == self._underline:
            yield self._attached(line)
        elif heading := self._heading(line, below):
            self._path.enter(heading)
            yield from split(line.start, line.text, Rank.SECTION, self._path.text)
            self._begins_block = True
        elif line.is_new and (fence := FENCE.match(line.text)):
            self._fence = fence[1]
            self._keep(line)
        else:
            yield from self._words(line)

    def _attached(self, line: Line) -> Piece:
        """A line that says nothing itself: the next one begins a block."""
        self._begins_block = True
        return Piece(line.start, line.text, Rank.WORD, min(len(line.text), 1), self._path.text)

    def _heading(self, line: Line, below: Line) -> Heading | None:
        if not line.is_new:
            return None
        if heading := marked_heading(line.text):
            return heading
        if not self._begins_block:
            return None
        if heading := underlined_heading(line.text, below.text):
            self._underline = below.start
            return heading
        return numbered_heading(line.text) if below.is_blank else None

    def _words(self, line: Line) -> Iterator[Piece]:
        rank = self._rank(line)
        for begin, end in sentences(line.text):
            yield from split(line.start + begin, line.text[begin:end], rank, self._path.text)
            rank = Rank.SENTENCE
        self._begins_block = False
        self._ends_sentence = ends_sentence(line.text)

    def _rank(self, line: Line) -> Rank:
        if not line.is_new:
            return Rank.WORD
        if self._begins_block:
            return Rank.BLOCK
        if ITEM.match(line.text):
            return Rank.ITEM
        return Rank.SENTENCE if self._ends_sentence else Rank.LINE

    # Blocks of code: held back until they are over, or too long to be kept whole.

    def _code_line(self, line: Line) -> Iterator[Piece]:
        self._keep(line)
        if self._code_weight > WHOLE_CODE:
            yield from self._flush_lines()
        mark = line.text.strip()
        if mark.startswith(self._fence) and not mark.strip(self._fence[0]):
            yield from self._flush()
            self._fence, self._begins_block = "", True

    def _keep(self, line: Line) -> None:
        self._code.append(line)
        self._code_weight += weight_of(line.text)

    def _flush(self) -> Iterator[Piece]:
        """The code that was held back, whole if it has not begun to go by lines."""
        if self._code and self._code_weight <= WHOLE_CODE:
            text = "".join(line.text for line in self._code)
            yield Piece(self._code[0].start, text, Rank.BLOCK, self._code_weight, self._path.text)
            self._code = []
        yield from self._flush_lines()
        self._code_weight = 0

    def _flush_lines(self) -> Iterator[Piece]:
        held, self._code = self._code, []
        for line in held:
            rank = Rank.BLOCK if FENCE.match(line.text) else Rank.ITEM if self._is_behind_blank else Rank.LINE
            yield from split(line.start, line.text, rank if line.is_new else Rank.WORD, self._path.text)
            self._is_behind_blank = line.is_blank
