"""HTML as Markdown: its words and its structure, heard tag by tag, so that nothing nested is ever held."""

import codecs
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

from app.documents.reading.encodings import encoding_of
from app.documents.reading.process import ReadMessage, ReadProgress, TextPiece

PIECE = 2**16
SNIFFED = 2**20
CHARSET = re.compile(rb"<meta[^>]{0,200}charset\s*=\s*[\"']?\s*([\w.:-]{1,40})", re.IGNORECASE)
PARAGRAPHS = frozenset(
    ("p", "div", "section", "article", "main", "header", "footer", "aside", "nav", "blockquote", "figure", "table",
     "ul", "ol", "dl", "form", "fieldset", "details", "hr", "body", "title")
)  # fmt: skip
LINES = frozenset(("br", "tr", "dt", "dd", "li", "figcaption", "summary", "option", "caption"))
CELLS = frozenset(("td", "th"))
HEADINGS = {f"h{level}": "#" * level + " " for level in range(1, 7)}
MARKED = frozenset((*HEADINGS, "li"))
UNSEEN = frozenset(("script", "style"))
SPACES = re.compile(r"\s+")


def read_html(path: Path, name: str) -> Iterator[ReadMessage]:  # noqa: ARG001 - readers have the same arguments
    """The text of a page."""
    parser, total, done = _Text(), path.stat().st_size, 0
    with path.open("rb") as file:
        decoder = codecs.getincrementaldecoder(_encoding(file.read(SNIFFED)))("replace")
        file.seek(0)
        while piece := file.read(PIECE):
            parser.feed(decoder.decode(piece))
            done += len(piece)
            yield TextPiece(parser.taken())
            yield ReadProgress(done, total)
    parser.feed(decoder.decode(b"", final=True))
    parser.close()
    yield TextPiece(parser.taken())


def _encoding(sample: bytes) -> str:
    found = encoding_of(sample)
    declared = CHARSET.search(sample[:PIECE])
    if not found.is_guess or not declared:
        return found.name
    try:
        return codecs.lookup(declared[1].decode("ascii")).name
    except (LookupError, UnicodeDecodeError):
        return found.name


class _Text(HTMLParser):
    """Hears tags and words, and says the text so far."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self._said: list[str] = []
        self._breaks = 0
        self._mark = ""
        self._is_space_due = False
        self._is_unseen = False
        self._is_code = False
        self._has_begun = False

    def taken(self) -> str:
        """What was said since the last time."""
        text, self._said = "".join(self._said), []
        return text

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:  # noqa: ARG002
        """A tag opens."""
        self._is_unseen = tag in UNSEEN
        if tag == "pre" and not self._is_code:
            self._break(2)
            self._write("```")
            self._break(1)
            self._is_code = True
        elif tag in HEADINGS:
            self._break(2)
            self._mark = HEADINGS[tag]
        elif tag == "li":
            self._break(1)
            self._mark = "- "
        elif tag in CELLS:
            self._write(" | ")
        else:
            self._break(2 if tag in PARAGRAPHS else 1 if tag in LINES else 0)

    def handle_endtag(self, tag: str) -> None:
        """A tag closes."""
        if tag in UNSEEN:
            self._is_unseen = False
        elif tag == "pre" and self._is_code:
            self._is_code = False
            self._break(1)
            self._write("```")
            self._break(2)
        else:
            self._break(2 if tag in PARAGRAPHS or tag in HEADINGS else 1 if tag in LINES else 0)
            if tag in MARKED:
                self._mark = ""

    def handle_data(self, data: str) -> None:
        """TextPiece."""
        if self._is_unseen:
            return
        if self._is_code:
            self._write(data)
            return
        if data[:1].isspace():
            self._is_space_due = True
        words = SPACES.sub(" ", data).strip()
        if words:
            self._write(words)
            self._is_space_due = data[-1:].isspace()

    def _break(self, lines: int) -> None:
        """Have so many line ends before the next words, if there were any words yet."""
        if self._has_begun:
            self._breaks = max(self._breaks, lines)
        if lines:
            self._is_space_due = False

    def _write(self, text: str) -> None:
        space = " " if self._is_space_due and not self._breaks else ""
        self._said.append("\n" * self._breaks + space + self._mark + text)
        self._breaks, self._mark, self._is_space_due, self._has_begun = 0, "", False, True
