"""Source code as pieces: a line each; a passage rather begins behind a blank line, best of all at the margin.

The path of headings has the definitions around a line, by their indentation (with another sign between them):

    class Pool:            ""
        def grow(self):    "class Pool"
            rows = 2       "class Pool > def grow(self)"
"""

import re
from collections.abc import Iterable, Iterator

from app.documents.passages.headings import BETWEEN, WIDEST
from app.documents.passages.lines import Line
from app.documents.passages.pieces import Piece, Rank, split

DEFINITION = re.compile(
    r"\s*(?:(?:export|default|public|private|protected|internal|static|async|abstract|final|pub(?:\([^)]*\))?|unsafe"
    r"|extern|inline|virtual|sealed|partial|open|data|override)\s+)*"
    r"(?:def|class|function|fn|func|fun|struct|enum|trait|impl|interface|type|module|mod|namespace|object|protocol"
    r"|record|union|CREATE\s+\w+|sub|defmodule)\b\s*[\w(<&*'\"]",
)
CLOSING = ")]}"
TAB = 4
DEEPEST = 16
"""Definitions within definitions that a path has."""


class Definitions:
    """The definitions around a line."""

    def __init__(self) -> None:
        self._around: list[tuple[int, str]] = []

    def look(self, line: str) -> str:
        """The path of what is around this line, which may be a definition itself."""
        bare = line.lstrip()
        if bare[:1] and bare[0] not in CLOSING:
            indent = _indent(line, bare)
            self._around = [one for one in self._around if one[0] < indent]
        path = BETWEEN.join(name for _, name in self._around)
        if len(self._around) < DEEPEST and DEFINITION.match(line):
            self._around.append((_indent(line, bare), _name(bare)))
        return path


def scan_code(lines: Iterable[Line]) -> Iterator[Piece]:
    """The pieces of a text that is source code."""
    definitions = Definitions()
    is_behind_blank = True
    for line in lines:
        if line.is_blank:
            yield from split(line.start, line.text, Rank.LINE, definitions.look(""))
        else:
            rank = _rank(line, is_behind_blank)
            yield from split(line.start, line.text, rank, definitions.look(line.text))
        is_behind_blank = line.is_blank


def _rank(line: Line, is_behind_blank: bool) -> Rank:
    if not line.is_new:
        return Rank.WORD
    if not is_behind_blank:
        return Rank.LINE
    return Rank.ITEM if line.text[0] in " \t" else Rank.BLOCK


def _indent(line: str, bare: str) -> int:
    return len(line[: len(line) - len(bare)].expandtabs(TAB))


def _name(bare: str) -> str:
    return " ".join(bare.split())[:WIDEST].rstrip(" {:")
