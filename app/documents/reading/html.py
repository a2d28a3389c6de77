"""Reads HTML as Markdown, tag by tag, without building a tree.

Python's HTMLParser takes quadratic time for markup that is never closed, and so do lxml and justhtml for some
pages. Here a single pattern splits a page in one pass. As in a browser, markup that is never closed ends with the
page.
"""

import codecs
import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path

from app.documents.reading.files import encoding_of
from app.documents.reading.process import ReadMessage, ReadProgress, ReadTitle, TextPiece
from app.values.document import MARGINS

PIECE = 2**16
SNIFFED = 2**20
CHARSET = re.compile(rb"<meta[^>]{0,200}charset\s*=\s*[\"']?\s*([\w.:-]{1,40})", re.IGNORECASE)
PARAGRAPHS = frozenset(
    ("p", "div", "section", "article", "main", "header", "footer", "aside", "nav", "blockquote", "figure", "table",
     "ul", "ol", "dl", "form", "fieldset", "details", "hr", "body", "title")
)  # fmt: skip
LINES = frozenset(("br", "tr", "dt", "dd", "li", "figcaption", "summary", "option", "caption"))
CELLS = frozenset(("td", "th"))
CELL = " | "
HEADINGS = {f"h{level}": "#" * level + " " for level in range(1, 7)}
MARKED = frozenset((*HEADINGS, "li"))
UNSEEN = frozenset(("script", "style"))
SPACES = re.compile(r"\s+")
HEADING = re.compile(r"^#+ ")
LONGEST_ENTITY = 40
BESIDE = frozenset(("nav", "footer", "aside", "dialog", "noscript", "template", "button", "select"))
"""Elements beside the main part of a page."""
MARKED_BESIDE = re.compile(
    r"role\s*=\s*[\"']?(?:navigation|banner|contentinfo|complementary|search)\b|\shidden(?=[\s>=/])|display:\s*none",
    re.IGNORECASE,
)
"""Attributes of elements beside the main part, and of those that are not shown."""
EMPTY = frozenset(
    ("img", "input", "br", "hr", "meta", "link", "area", "col", "embed", "source", "track", "wbr")
)
ALTERNATIVE = re.compile(r"""\salt\s*=\s*(?:"([^"]*+)"|'([^']*+)')""", re.IGNORECASE)
LEAST_MAIN = 0.1
"""The smallest share of a page's words that is its main part; with less, the page is not divided."""


def _markup(end: str, value: str) -> re.Pattern[str]:
    """Compiles the pattern of markup.

    `end` is an alternative to the closing sign; `value` matches an attribute's value."""
    name = r"[a-zA-Z][^\s/>\0]*+"
    return re.compile(
        rf"<!--(?:-?>|.*?(?:--(?:\s*+|!)>{end}))|<!\[CDATA\[.*?(?:\]\]>{end})|<[!?](?!--|\[CDATA\[)[^>]*+(?:>{end})"
        rf"|</(?P<closed>{name})[^>]*+(?:>{end})|</[^>]*+(?:>{end})"
        rf"|<(?P<opened>{name})(?:[^>=]++|=\s*+{value})*(?:>{end})|(?P<cut><(?=[a-zA-Z/!?]|\Z))",
        re.DOTALL,
    )


MARKUP = _markup("", """(?:"[^"]*+"|'[^']*+'|(?!["']))""")
LAST_MARKUP = _markup(r"|\Z", """(?:"[^"]*+"|'[^']*+')?""")
"""The pattern for the end of a page, where an unclosed quotation mark is an ordinary character."""
RAW_ENDS = {tag: re.compile(rf"</{tag}(?=[\s/>])", re.IGNORECASE) for tag in UNSEEN}


def read_html(path: Path, name: str) -> Iterator[ReadMessage]:  # noqa: ARG001 - readers have the same arguments
    """Yields the text of an HTML file as Markdown, with progress."""
    page, total, done = Page(is_divided=True), path.stat().st_size, 0
    with path.open("rb") as file:
        decoder = codecs.getincrementaldecoder(_encoding(file.read(SNIFFED)))("replace")
        file.seek(0)
        while piece := file.read(PIECE):
            page.feed(decoder.decode(piece))
            done += len(piece)
            yield TextPiece(page.taken())
            yield ReadProgress(done, total)
    page.feed(decoder.decode(b"", final=True), is_last=True)
    yield TextPiece(page.taken() + page.rest())
    yield ReadTitle(page.title)


def encoding_as_declared(sample: bytes, declared: str) -> str:
    """Returns the encoding that a text declares, unless its bytes show another one or it is unknown."""
    found = encoding_of(sample)
    try:
        name = codecs.lookup(declared).name
    except LookupError:
        return found.name
    return name if found.is_guess and name != "utf-8" else found.name


def _encoding(sample: bytes) -> str:
    declared = CHARSET.search(sample[:PIECE])
    return encoding_as_declared(sample, declared[1].decode("latin-1") if declared else "")


class Page:
    """Turns a page that comes in pieces into Markdown.

    With `is_divided`, menus and margins are moved to the end of the text: elements beside the main part, hidden
    elements, and blocks that consist mostly of links."""

    def __init__(self, is_divided: bool = False) -> None:
        self._is_divided = is_divided
        self._block: list[str] = []
        self._beside: list[str] = []
        self._sizes = {True: 0, False: 0}
        self._letters = {True: 0, False: 0}
        self._is_link = False
        self._margin, self._depth = "", 0
        self.title = ""
        self._is_in_title = False
        self._held: list[str] = []
        self._length = 0
        self._wanted = 0
        self._raw = ""
        self._written: list[str] = []
        self._breaks = 0
        self._mark = ""
        self._is_space_due = False
        self._is_code = False
        self._has_begun = False

    def feed(self, piece: str, is_last: bool = False) -> None:
        """Reads the next piece.

        A tag that is cut off is held until the text is twice as long, so it is seldom reread."""
        self._held.append(piece)
        self._length += len(piece)
        if self._length < self._wanted and not is_last:
            return
        text = "".join(self._held)
        at, is_cut = self._read(text, is_last)
        tail = text[at:]
        if not (is_cut or is_last or self._raw):
            entity = tail.rfind("&", max(0, len(tail) - LONGEST_ENTITY))
            tail, words = (tail[entity:], tail[:entity]) if entity >= 0 else ("", tail)
            self._read_words(words)
        self._held, self._length, self._wanted = [tail], len(tail), 2 * len(tail) if is_cut else 0
        if is_last:
            self._end_block()

    def _read(self, text: str, is_last: bool) -> tuple[int, bool]:
        """Reads up to the end of the last whole tag. Returns that position, and whether a tag is cut off there."""
        markup, at = LAST_MARKUP if is_last else MARKUP, 0
        while True:
            if self._raw:
                end = RAW_ENDS[self._raw].search(text, at)
                if end is None:
                    return max(at, len(text) - len("</script")), False
                at, self._raw = end.start(), ""
            found = markup.search(text, at)
            if found is None:
                if is_last:
                    self._read_words(text[at:])
                return at, False
            self._read_words(text[at : found.start()])
            if found["cut"] and not is_last:
                return found.start(), True
            at = found.end()
            if found["cut"]:
                self._read_words(found[0])
            else:
                self._read_tag(found)

    def _read_tag(self, found: re.Match[str]) -> None:
        tag = (found["opened"] or found["closed"] or "").lower()
        last = found[0].rsplit(maxsplit=1)[-1]
        is_empty = last.endswith("/>") and ("=" not in last or last[-3] in "\"'")
        if tag == "title":
            self._is_in_title = found["opened"] is not None and not self.title
        self._enter_or_leave_margin(tag, found)
        if tag == "img" and (words := ALTERNATIVE.search(found[0])) and (words[1] or words[2]):
            self._read_words(f" [Picture: {words[1] or words[2]}] ")
        if found["opened"] is not None:
            self._open(tag)
            self._raw = tag if tag in UNSEEN and not is_empty else ""
        if found["closed"] is not None or (tag and is_empty):
            self._close(tag)

    def taken(self) -> str:
        """Returns the Markdown that was written since the last call."""
        text, self._written = "".join(self._written), []
        return text

    def rest(self) -> str:
        """Returns the menus and margins below a heading; without a heading if the main part is very small."""
        is_divided = self._sizes[False] >= LEAST_MAIN * sum(self._sizes.values())
        head = [f"\n\n# {MARGINS}"] if is_divided and self._beside else []
        text = "".join(head + self._beside)
        return text if self._sizes[False] else text.lstrip()

    def _enter_or_leave_margin(self, tag: str, found: re.Match[str]) -> None:
        is_opened = found["opened"] is not None
        if tag == "a":
            self._is_link = is_opened
        if not self._margin and self._is_divided and is_opened and _is_beside(tag, found[0]):
            self._end_block(2)
            self._margin = tag
        if tag and tag == self._margin:
            self._depth += 1 if is_opened else -1
            if not self._depth:
                self._end_block(2)
                self._margin = ""

    def _end_block(self, lines: int = 0) -> None:
        """Writes the block that has ended, or keeps it for the end."""
        self._break(lines)
        text, size = "".join(self._block), sum(self._letters.values())
        is_linked = self._is_divided and CELL not in text and self._letters[True] > size / 2
        is_beside = bool(self._margin) or is_linked
        if is_beside and size:
            self._beside.append("\n\n" + HEADING.sub("", text.strip("\n")))
        elif size:
            self._written.append(text if self._sizes[False] else text.lstrip("\n"))
        self._sizes[is_beside] += size
        self._block, self._letters = [], {True: 0, False: 0}

    def _open(self, tag: str) -> None:
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
            self._write(CELL)
        else:
            self._break(2 if tag in PARAGRAPHS else 1 if tag in LINES else 0)

    def _close(self, tag: str) -> None:
        if tag == "pre" and self._is_code:
            self._is_code = False
            self._break(1)
            self._write("```")
            self._break(2)
        else:
            self._break(2 if tag in PARAGRAPHS or tag in HEADINGS else 1 if tag in LINES else 0)
            if tag in MARKED:
                self._mark = ""

    def _read_words(self, text: str) -> None:
        data = unescape(text)
        if not data:
            return
        if self._is_code:
            self._write(data)
            return
        if data[:1].isspace():
            self._is_space_due = True
        words = SPACES.sub(" ", data).strip()
        if words:
            self.title += words if self._is_in_title else ""
            self._write(words)
            self._is_space_due = data[-1:].isspace()

    def _break(self, lines: int) -> None:
        """Puts at least this many line ends before the next words, unless they are the text's first."""
        if self._has_begun:
            self._breaks = max(self._breaks, lines)
        if lines:
            self._is_space_due = False

    def _write(self, text: str) -> None:
        if self._breaks > 1:
            self._end_block()
        space = " " if self._is_space_due and not self._breaks else ""
        self._block.append("\n" * self._breaks + space + self._mark + text)
        self._letters[self._is_link] += len(text)
        self._breaks, self._mark, self._is_space_due, self._has_begun = 0, "", False, True


def _is_beside(tag: str, markup: str) -> bool:
    return tag in BESIDE or (
        tag not in EMPTY and len(markup) > len(tag) + 2 and bool(MARKED_BESIDE.search(markup))
    )
