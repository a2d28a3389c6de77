"""Splits a text into chunks that become passages, each with the path of the headings or definitions above it.

semantic-text-splitter finds where to cut. It splits only text in memory, so it gets one window of a text at a time.
The last chunk of a window ends only because the window ends, so the next window begins with that chunk."""

import re
import unicodedata
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, pairwise
from pathlib import PurePath
from typing import NamedTuple

from semantic_text_splitter import MarkdownSplitter, TextSplitter

from app.values.document import MARGINS
from app.values.text_normalisation import weight_of

MAX_WEIGHT = 1_500
"""Maximum weight of a chunk, in letters (see `weight_of`): 200 to 400 tokens of most tokenizers."""
OVERLAP = 240
"""Maximum weight that a chunk repeats from the chunk before it."""
SHORT_SECTION = 250
"""Maximum weight of one or more sections that are merged with the next section."""
WINDOW = 12_000
"""Weight at which a window is split. The splitter's time grows faster than the length of some texts."""
CODE = frozenset({
    ".bash", ".c", ".cc", ".clj", ".cmake", ".cpp", ".cs", ".css", ".cu", ".cuh", ".cxx", ".dart",
    ".ex", ".exs", ".go", ".gradle", ".groovy", ".h", ".hpp", ".hs", ".hxx", ".ini", ".java", ".jl",
    ".js", ".json", ".jsx", ".kt", ".kts", ".less", ".lua", ".m", ".mjs", ".ml", ".mm", ".nim",
    ".php", ".pl", ".pm", ".proto", ".ps1", ".py", ".pyi", ".pyx", ".r", ".rb", ".rs", ".sass",
    ".scala", ".scss", ".sh", ".sql", ".svelte", ".swift", ".tf", ".toml", ".ts", ".tsx", ".vb",
    ".vue", ".xml", ".yaml", ".yml", ".zig", ".zsh",
})  # fmt: skip
PAGED = ".pdf"
SEPARATOR = " \u203a "
"""The separator between the headings or definitions of a path."""
MAX_TITLE = 80
"""Maximum number of characters of a heading or a definition in a path."""
MARKED_UP = 800
"""Maximum number of characters of a heading, including its markup, that are used."""
MARKED = re.compile(r" {0,3}(#{1,6})[ \t]++(\S.*)")
UNDERLINE = re.compile(r"(=+|-+|~+|\^+|\"+)\s*$")
UNDERLINE_LEVELS = {"=": 1, "-": 2, "~": 3, "^": 4, '"': 4}
MAX_UNDERLINED = 120
NUMBERED = re.compile(
    r"\s*(?:(?:chapter|part|book|section|article|appendix|act|scene|kapitel|artikel|abschnitt|teil|chapitre)"
    r"\s+(?:\d+|[ivxlcdm]+)\b|\u00a7\s*\d+|\u7b2c\s*[\d\u4e00-\u9fff]{1,5}\s*[\u7ae0\u7bc0\u8282\u6761\u6b3e])"
    r".{0,80}$",
    re.IGNORECASE,
)
PAGE = re.compile(r"page (\d+)")
PAGE_BREAK = "\f"
MARKUP = re.compile(r"[*_`]+|\[([^\]]*)\]\([^)]*\)")
FENCE = re.compile(r"\s{0,3}(`{3,}|~{3,})")
DEFINITION = re.compile(
    r"\s*(?:(?:export|default|public|private|protected|internal|static|async|abstract|final|pub(?:\([^)]*\))?|unsafe"
    r"|extern|inline|virtual|sealed|partial|open|data|override)\s+)*"
    r"(?:def|class|function|fn|func|fun|struct|enum|trait|impl|interface|type|module|mod|namespace|object|protocol"
    r"|record|union|CREATE\s+\w+|sub|defmodule)\b\s*[\w(<&*'\"]"
)
CLOSING = ")]}"
TAB = 4
MAX_DEPTH = 16
"""Maximum number of nested definitions in a path."""
MAX_LINE = 4_096
"""Usual length of the parts into which a line of at least twice this length is divided."""
JOINERS = "\u200d\ufe0e\ufe0f"


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of a text with its position and the path of headings or definitions above it."""

    start: int
    end: int
    text: str
    heading: str = ""


def chunks(parts: Iterable[str], source: str) -> Iterator[Chunk]:
    """Yields the chunks of a text that comes in parts of any length; `source` is the name of the text's file."""
    ending = PurePath(source).suffix.lower()
    if ending in CODE:
        window = _Window(CodeOutline(), TextSplitter)
    else:
        window = _Window(WritingOutline(first_page=1 if ending == PAGED else 0), MarkdownSplitter)
    for line, below in pairwise(chain(lines_of(parts), [Line(0, "")])):
        yield from window.take(line, below)
    yield from window.rest()


class Line(NamedTuple):
    """A line with its line end, or a part of a very long line. `is_new` is false for later parts of a line."""

    start: int
    text: str
    is_new: bool = True

    @property
    def is_blank(self) -> bool:
        return not self.text or self.text.isspace()


def lines_of(parts: Iterable[str]) -> Iterator[Line]:
    """Yields the lines of a text that comes in parts of any length, and very long lines in parts."""
    start, is_new, rest = 0, True, ""
    for part in parts:
        *whole, rest = (rest + part).split("\n")
        for text in [one + "\n" for one in whole]:
            yield from _parts_of(start, text, is_new)
            start, is_new = start + len(text), True
        while len(rest) >= 2 * MAX_LINE:
            size = _whole_characters(rest)
            yield Line(start, rest[:size], is_new)
            start, rest, is_new = start + size, rest[size:], False
    if rest:
        yield from _parts_of(start, rest, is_new)


def _parts_of(start: int, text: str, is_new: bool) -> Iterator[Line]:
    at = 0
    while len(text) - at >= 2 * MAX_LINE:
        size = _whole_characters(text[at : at + MAX_LINE + 1])
        yield Line(start + at, text[at : at + size], is_new)
        at, is_new = at + size, False
    yield Line(start + at, text[at:], is_new)


def _whole_characters(text: str) -> int:
    """Returns the greatest length, up to MAX_LINE, at which no letter loses its combining marks or joiners.

    If no length above MAX_LINE // 2 is possible, returns MAX_LINE."""
    end = MAX_LINE
    while end > MAX_LINE // 2 and end < len(text):
        if not unicodedata.combining(text[end]) and text[end] not in JOINERS and text[end - 1] != "\u200d":
            return end
        end -= 1
    return end if end > MAX_LINE // 2 else MAX_LINE


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading; 1 is the highest level."""

    level: int
    title: str


def marked_heading(line: str) -> Heading | None:
    """Recognises a heading by its leading signs: "## Eggs" is a heading of level 2."""
    found = MARKED.match(line)
    if found is None:
        return None
    title = found[2].rstrip()
    return Heading(len(found[1]), title.rstrip("#").rstrip(" \t") or title[0])


def underlined_heading(line: str, below: str) -> Heading | None:
    """Recognises a heading by the line below it: "Eggs" above "====" is a heading of level 1."""
    found = UNDERLINE.match(below)
    title = line.strip()
    if not found or not title or len(found[1]) < max(3, min(len(title), MAX_UNDERLINED) - 2):
        return None
    return Heading(UNDERLINE_LEVELS[found[1][0]], title) if len(title) <= MAX_UNDERLINED else None


def numbered_heading(line: str) -> Heading | None:
    """Recognises a heading by its first words: "CHAPTER IV. The Rabbit" is a heading of level 2."""
    return Heading(2, line.strip()) if NUMBERED.match(line) else None


def joined_pages(first: str, last: str) -> str:
    """Returns the path `first` with the pages up to that of `last`: "page 1", "page 2 > Eggs" -> "pages 1-2"."""
    begin, end = PAGE.match(first), PAGE.match(last)
    if not begin or not end or begin[1] == end[1]:
        return first
    return f"pages {begin[1]}-{end[1]}{first[begin.end() :]}"


class Outline(ABC):
    """The headings, pages or definitions above each line of a text. Lines are entered in order.

    # Kitchen               "Kitchen"
    ## Eggs                 "Kitchen > Eggs"            (joined by SEPARATOR)
    Boil them.              "Kitchen > Eggs"

    class Pool:             ""
        def grow(self):     "class Pool"
            rows = 2        "class Pool > def grow(self)"
    """

    def __init__(self) -> None:
        self._starts: list[int] = [0]
        self._words: list[int] = [0]
        """For each path, the position after the heading that begins the path; 0 without such a heading."""
        self._paths: list[str] = [""]

    def begins_section(self, line: Line, below: Line) -> bool:  # noqa: ARG002 - for outlines without sections
        """Returns whether this line is a heading. Must be called once for each line, before `enter`."""
        return False

    @abstractmethod
    def enter(self, line: Line) -> None:
        """Records the path of this line."""

    def path(self, start: int, text: str) -> str:
        """Returns the path of the first words after a chunk's leading headings, with all pages of the chunk.

        Chunks must come in order, because the paths before this chunk are forgotten."""
        passed = self._place(start)
        del self._starts[:passed], self._words[:passed], self._paths[:passed]
        at = start
        while at < self._words[place := self._place(at)] < start + len(text):
            rest = text[self._words[place] - start :]
            at = self._words[place] + len(rest) - len(rest.lstrip())
        return joined_pages(self._paths[place], self._paths[self._place(start + len(text) - 1)])

    def _note(self, start: int, path: str, words: int = 0) -> None:
        if path != self._paths[-1] or words:
            self._starts.append(start)
            self._words.append(words)
            self._paths.append(path)

    def _place(self, at: int) -> int:
        return bisect_right(self._starts, at) - 1


class WritingOutline(Outline):
    """Headings and pages of plain text and Markdown."""

    def __init__(self, first_page: int = 0) -> None:
        """Begins at page `first_page`; 0 means that pages are counted only from the first page break on."""
        super().__init__()
        self._page = first_page
        self._headings: list[Heading] = []
        self._heading: Heading | None = None
        self._fence = ""
        self._underline = -1
        self._begins_block = True
        self._paths = [self._joined()]

    def begins_section(self, line: Line, below: Line) -> bool:
        if line.text.startswith(PAGE_BREAK):
            self._page = (self._page or 1) + 1
            self._begins_block = True
        self._heading = self._heading_of(line, below)
        return self._heading is not None

    def enter(self, line: Line) -> None:
        """Records the path of a line. A heading ends the headings of its own level and of deeper levels."""
        if self._heading:
            level = self._heading.level
            self._headings = [one for one in self._headings if one.level < level] + [self._heading]
            self._note(line.start, self._joined(), line.start + len(line.text))
        else:
            self._note(line.start, self._joined())
        fence = FENCE.match(line.text) if line.is_new else None
        if self._fence:
            mark = line.text.strip()
            if mark.startswith(self._fence) and not mark.strip(self._fence[0]):
                self._fence = ""
        elif fence and not self._heading:
            self._fence = fence[1]
        self._begins_block = bool(self._heading) or line.is_blank or line.start == self._underline

    def _heading_of(self, line: Line, below: Line) -> Heading | None:
        if not line.is_new or line.is_blank or self._fence or line.start == self._underline:
            return None
        if heading := marked_heading(line.text):
            return heading
        if not self._begins_block:
            return None
        if heading := underlined_heading(line.text, below.text):
            self._underline = below.start
            return heading
        return numbered_heading(line.text) if below.is_blank else None

    def _joined(self) -> str:
        page = [f"page {self._page}"] if self._page else []
        plain = (" ".join(MARKUP.sub(r"\1", one.title[:MARKED_UP]).split()) for one in self._headings)
        return SEPARATOR.join([*page, *filter(None, (title[:MAX_TITLE].strip() for title in plain))])


class CodeOutline(Outline):
    """The definitions around each line of source code, by their indentation."""

    def __init__(self) -> None:
        super().__init__()
        self._around: list[tuple[int, str]] = []

    def enter(self, line: Line) -> None:
        """Records the definitions around this line. A definition is added to them, up to MAX_DEPTH."""
        bare = line.text.lstrip()
        if not bare:
            return
        indent = len(line.text[: len(line.text) - len(bare)].expandtabs(TAB))
        if bare[0] not in CLOSING:
            self._around = [one for one in self._around if one[0] < indent]
        self._note(line.start, SEPARATOR.join(name for _, name in self._around))
        if len(self._around) < MAX_DEPTH and DEFINITION.match(line.text):
            name = " ".join(bare.split())[:MAX_TITLE].rstrip(" {:")
            self._around.append((indent, name))


class _Window:
    """The part of a text that is being split."""

    def __init__(self, outline: Outline, splitter: type[MarkdownSplitter | TextSplitter]) -> None:
        self._outline = outline
        self._splitter = splitter.from_callback(weight_of, MAX_WEIGHT, OVERLAP)
        self._lines: list[str] = []
        self._start = 0
        self._weight = 0

    def take(self, line: Line, below: Line) -> Iterator[Chunk]:
        """Adds a line. Yields the chunks that no later line can change."""
        is_long = self._weight > SHORT_SECTION or line.text == f"# {MARGINS}\n"
        if self._outline.begins_section(line, below) and is_long:
            yield from self.rest()
        self._outline.enter(line)
        self._add(line.text)
        if self._weight >= WINDOW:
            yield from self.rest(is_section=False)

    def rest(self, is_section: bool = True) -> Iterator[Chunk]:
        """Yields the chunks of the window, and empties it.

        If no section ends here, the last chunk is not yielded but begins the next window, unless it is the only
        chunk and begins where the window begins."""
        text = "".join(self._lines)
        blank = len(text) - len(text.lstrip())  # the splitter takes long for many blank lines
        split = self._splitter.chunk_indices(text.strip())
        found = [(blank + start, chunk) for start, chunk in split if chunk.strip()]
        is_whole = is_section or not found or (len(found) == 1 and found[0][0] == 0)
        for start, chunk in found if is_whole else found[:-1]:
            plain = chunk.strip()
            begin = self._start + start + len(chunk) - len(chunk.lstrip())
            yield Chunk(begin, begin + len(plain), plain, self._outline.path(begin, plain))
        begin = len(text) if is_whole else found[-1][0]
        self._start += begin
        self._lines, self._weight = [], 0
        self._add(text[begin:])

    def _add(self, text: str) -> None:
        self._lines.append(text)
        self._weight += weight_of(text)
