"""Splits a text into chunks that become passages; semantic-text-splitter finds where to cut.

The splitter wants a whole text, so it gets a window of one at a time. The last chunk of a window ends only because
the window does, so the next window begins with it. A section is cut off from the one before, unless that is very
short.

    for chunk in chunks(parts, "notes.md"):    text[chunk.start : chunk.end] == chunk.text
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, pairwise
from pathlib import PurePath

from semantic_text_splitter import MarkdownSplitter, TextSplitter

from app.documents.outline import CodeOutline, Line, Outline, WritingOutline, lines_of

MAX_WEIGHT = 1_500
"""Weight of a chunk: 200 to 400 tokens of most tokenizers."""
OVERLAP = 240
"""Weight that a chunk repeats of the one before, at most."""
SHORT_SECTION = 250
"""Weight up to which a section is merged with the next."""
WINDOW = 12_000
"""Characters that are split at once: the splitter takes longer than in proportion for texts without structure."""
WIDE_WEIGHT = 3
"""A character of a script without spaces says about as much as three letters, and takes as many tokens."""
WIDE = re.compile(
    "[\u1100-\u11ff\u2e80-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff]"
)
CODE = frozenset({
    ".bash", ".c", ".cc", ".clj", ".cmake", ".cpp", ".cs", ".css", ".cu", ".cuh", ".cxx", ".dart",
    ".ex", ".exs", ".go", ".gradle", ".groovy", ".h", ".hpp", ".hs", ".hxx", ".ini", ".java", ".jl",
    ".js", ".json", ".jsx", ".kt", ".kts", ".less", ".lua", ".m", ".mjs", ".ml", ".mm", ".nim",
    ".php", ".pl", ".pm", ".proto", ".ps1", ".py", ".pyi", ".pyx", ".r", ".rb", ".rs", ".sass",
    ".scala", ".scss", ".sh", ".sql", ".svelte", ".swift", ".tf", ".toml", ".ts", ".tsx", ".vb",
    ".vue", ".xml", ".yaml", ".yml", ".zig", ".zsh",
})  # fmt: skip
PAGED = ".pdf"


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of a text by its place, with the path of headings above it."""

    start: int
    end: int
    text: str
    heading: str = ""


def weight_of(text: str) -> int:
    """How long a text is for a reader: letters, wide characters by their weight."""
    return len(text) if text.isascii() else len(text) + (WIDE_WEIGHT - 1) * len(WIDE.findall(text))


def chunks(parts: Iterable[str], source: str) -> Iterator[Chunk]:
    """The chunks of a text that comes in parts, wherever those end; `source` is the name of its file."""
    ending = PurePath(source).suffix.lower()
    if ending in CODE:
        window = _Window(CodeOutline(), TextSplitter)
    else:
        window = _Window(WritingOutline(first_page=1 if ending == PAGED else 0), MarkdownSplitter)
    for line, below in pairwise(chain(lines_of(parts), [Line(0, "")])):
        yield from window.take(line, below)
    yield from window.rest()


class _Window:
    """The part of a text that is being split."""

    def __init__(self, outline: Outline, splitter: type[MarkdownSplitter | TextSplitter]) -> None:
        self._outline = outline
        self._splitter = splitter.from_callback(weight_of, MAX_WEIGHT, OVERLAP)
        self._lines: list[str] = []
        self._start = 0
        self._length = 0

    def take(self, line: Line, below: Line) -> Iterator[Chunk]:
        """Add a line; yields the chunks that nothing behind them can change."""
        if self._outline.begins_section(line, below) and self._weight() > SHORT_SECTION:
            yield from self.rest()
        self._outline.enter(line)
        self._add(line.text)
        if self._length >= WINDOW:
            yield from self._settled()

    def rest(self) -> Iterator[Chunk]:
        """All chunks of the window, which is empty then."""
        text = self._emptied()
        for start, chunk in self._split(text):
            yield self._chunk(self._start + start, chunk)
        self._start += len(text)

    def _settled(self) -> Iterator[Chunk]:
        """All chunks but the last one, with which the next window begins."""
        text = self._emptied()
        found = self._split(text)
        is_settled = len(found) == 1 and found[0][0] == 0  # nothing but blanks behind it
        for start, chunk in found if is_settled else found[:-1]:
            yield self._chunk(self._start + start, chunk)
        begin = len(text) if is_settled or not found else found[-1][0]
        self._start += begin
        self._add(text[begin:])

    def _weight(self) -> int:
        return sum(map(weight_of, self._lines))

    def _add(self, text: str) -> None:
        self._lines.append(text)
        self._length += len(text)

    def _emptied(self) -> str:
        text = "".join(self._lines)
        self._lines, self._length = [], 0
        return text

    def _split(self, text: str) -> list[tuple[int, str]]:
        """Places and texts of the chunks that say something."""
        blank = len(text) - len(text.lstrip())  # the splitter takes long for many blank lines alone
        found = self._splitter.chunk_indices(text.strip())
        return [(blank + start, chunk) for start, chunk in found if chunk.strip()]

    def _chunk(self, start: int, text: str) -> Chunk:
        start += len(text) - len(text.lstrip())
        text = text.strip()
        return Chunk(start, start + len(text), text, self._outline.path(start, text))
