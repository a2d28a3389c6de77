"""Reads HTML as Markdown with libxml2, tag by tag and without a tree, so that reading takes linear time.

Python's HTMLParser takes quadratic time for tags that are never closed, and so do trees for some pages.
"""

import codecs
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from pathlib import Path

from lxml.etree import HTMLParser

from app.documents.reading.files import encoding_of
from app.documents.reading.html_lists import BULLET_MARK, HtmlLists
from app.documents.reading.process import ReadMessage, ReadProgress, ReadTitle, TextPiece
from app.values.document import MARGINS
from app.values.text_normalisation import weight_of

PIECE = 2**16
SNIFFED = 2**20
CHARSET = re.compile(rb"<meta[^>]{0,200}charset\s*=\s*[\"']?\s*([\w.:-]{1,40})", re.IGNORECASE)
PARAGRAPHS = frozenset(
    ("p", "div", "section", "article", "main", "header", "footer", "aside", "nav", "blockquote", "figure", "table",
     "ul", "ol", "dl", "form", "fieldset", "details", "hr", "body")
)  # fmt: skip
LINES = frozenset(("br", "tr", "dt", "dd", "li", "figcaption", "summary", "option", "caption"))
CELLS = frozenset(("td", "th"))
CELL = " | "
AROUND = PARAGRAPHS | LINES | CELLS
"""Elements that may contain the main part of a page."""
HEADINGS = {f"h{level}": "#" * level + " " for level in range(1, 7)}
LONGEST_MARK = 40
"""Maximum length of the marks of nested items without words between them."""
MARKED = frozenset((*HEADINGS, "li"))
UNSEEN = frozenset(("title", "script", "style", "iframe", "noembed", "noframes"))
SPACES = re.compile(r"\s+")
HEADING = re.compile(r"^#+ ")
BESIDE = frozenset(("nav", "footer", "aside", "dialog", "noscript", "template", "button", "select"))
"""Elements beside the main part of a page."""
ROLES = frozenset(("navigation", "banner", "contentinfo", "complementary", "search"))
NAMES = re.compile(
    "(?<![a-z])(?:banner|breadcrumb|combx|comment|community|disqus|footer|gdpr|menu|newsletter|pager|pagination"
    "|popup|promo|related|remark|replies|rss|share|shoutbox|sidebar|skyscraper|social|sponsor|supplemental)",
    re.IGNORECASE,
)
"""Classes and ids of elements beside the main part, from Mozilla's Readability, unless they also match MAIN."""
MAIN = re.compile(r"article|body|column|content|main|shadow", re.IGNORECASE)
HIDDEN = re.compile(r"display:\s*none|visibility:\s*hidden", re.IGNORECASE)
"""The style of elements that are not shown."""
NEVER_BESIDE = frozenset(
    ("html", "body", "main", "article", "img", "input", "br", "hr", "meta", "link", "area", "col", "embed",
     "source", "track", "wbr")
)  # fmt: skip
"""Elements that never begin a margin, because they are around the main part or have no content."""
LEAST_MAIN = 0.1
"""Minimum share of a page's letters in its main part. With less, the page is not divided."""
LEAST_PARAGRAPHS = 500
"""Minimum number of letters in all paragraphs of a page. With fewer, the main part is not searched for."""
LONG = 100
"""Minimum number of letters of a block that counts as a paragraph in the search for the main part."""
MOST_PARAGRAPHS = 0.7
"""The main part is the smallest element with at least this share of the letters of all paragraphs."""
LARGEST_DIVIDED = 20 * 2**20
"""Maximum bytes of a file that is divided into main part and margins."""


def read_html(path: Path, name: str) -> Iterator[ReadMessage]:  # noqa: ARG001 - readers have the same arguments
    """Yields the text of an HTML file as Markdown, with progress and the title.

    Menus and margins follow the main part, except in files of more than LARGEST_DIVIDED bytes."""
    page, total, done = Page(), path.stat().st_size, 0
    with path.open("rb") as file:
        sample = file.read(SNIFFED)
        declared = CHARSET.search(sample[:PIECE])
        encoding = encoding_as_declared(sample, declared[1].decode("latin-1") if declared else "")
        decoder = codecs.getincrementaldecoder(encoding)("replace")
        file.seek(0)
        while piece := file.read(PIECE):
            page.feed(decoder.decode(piece))
            done += len(piece)
            if total > LARGEST_DIVIDED:
                yield TextPiece(page.taken())
            yield ReadProgress(done, total)
    page.feed(decoder.decode(b"", final=True), is_last=True)
    yield TextPiece(page.taken() if total > LARGEST_DIVIDED else page.divided())
    yield ReadTitle(page.title)


def encoding_as_declared(sample: bytes, declared: str) -> str:
    """Returns the encoding that a text declares, unless it is unknown or the text's bytes show another encoding."""
    found = encoding_of(sample)
    try:
        name = codecs.lookup(declared).name
    except LookupError:
        return found.name
    return name if found.is_guess and name != "utf-8" else found.name


@dataclass(frozen=True, slots=True)
class Block:
    """A paragraph, a heading, a list or a table of a page, with the number of the element around it."""

    text: str
    weight: int
    element: int
    is_linked: bool
    """Whether most letters are in links. False for tables."""
    is_beside: bool
    """Whether an element around the block is in a margin or hidden."""


def markdown_of(markup: str) -> str:
    """Turns a whole page into Markdown without the page's title. Margins are not moved."""
    page = Page()
    page.feed(markup, is_last=True)
    return page.taken()


class Page:
    """Turns a page, whose markup comes in pieces, into Markdown without the page's title."""

    def __init__(self) -> None:
        self.title = ""
        self._is_in_title = False
        self._unseen = ""
        self._blocks: list[Block] = []
        self._block: list[str] = []
        self._letters = {True: 0, False: 0}
        self._is_link = False
        self._margin, self._depth = "", 0
        self._parents = [0]
        """For each element, the number of the element around it, which is smaller."""
        self._around: list[tuple[str, int]] = []
        self._element = 0
        self._breaks = 0
        self._mark = ""
        self._lists = HtmlLists()
        self._is_space_due = False
        self._is_code = False
        self._has_begun = False
        self._parser = HTMLParser(target=self, huge_tree=True)
        self._parser.feed("<html>")  # an empty page would be an error

    def feed(self, piece: str, is_last: bool = False) -> None:
        """Reads the next piece of the page's markup; the last piece ends the page."""
        self._parser.feed(piece)
        if is_last:
            self._parser.close()

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        """Reads the beginning of an element. The parser calls this."""
        if tag == "title":
            self._is_in_title = not self.title
        elif tag == "a":
            self._is_link = True
        if tag in UNSEEN:
            self._unseen = tag
        if not self._margin and _is_beside(tag, attributes):
            self._end_block(2)
            self._margin = tag
        self._depth += tag == self._margin
        if tag == "img" and (words := attributes.get("alt")):
            self.data(f" [Picture: {words}] ")
        self._lists.start(tag, attributes)
        self._open(tag, attributes)
        if tag in AROUND:
            self._parents.append(self._around[-1][1] if self._around else 0)
            self._around.append((tag, len(self._parents) - 1))

    def end(self, tag: str) -> None:
        """Reads the end of an element. The parser calls this."""
        if tag == "title":
            self._is_in_title = False
        elif tag == "a":
            self._is_link = False
        if tag == self._unseen:
            self._unseen = ""
        if self._margin and tag == self._margin:
            self._depth -= 1
            if not self._depth:
                self._end_block(2)
                self._margin = ""
        self._lists.end(tag)
        self._close(tag)
        if self._around and tag == self._around[-1][0]:
            self._around.pop()

    def close(self) -> None:
        self._end_block()

    def taken(self) -> str:
        """Returns the Markdown of all blocks that have ended since the last call."""
        text, self._blocks = "".join(one.text for one in self._blocks), []
        return self._lists.with_numbers(text)

    def divided(self) -> str:
        """Returns the Markdown of the page: the main part, then menus and margins below a heading of their own."""
        total = sum(one.weight for one in self._blocks)
        unlinked = [not one.is_linked for one in self._blocks]
        unmarked = [not (one.is_linked or one.is_beside) for one in self._blocks]
        # On some pages even the main part is in an element named as a margin.
        for is_tried in (unmarked, unlinked):
            is_main = self._is_main(is_tried)
            if sum(one.weight for one in compress(self._blocks, is_main)) >= LEAST_MAIN * total:
                break
        else:
            is_main = [True] * len(self._blocks)
        texts = [one.text for one in compress(self._blocks, is_main)]
        beside = [
            "\n\n" + HEADING.sub("", one.text.strip("\n"))
            for one, is_other in zip(self._blocks, is_main, strict=True)
            if not is_other
        ]
        head = [f"\n\n# {MARGINS}"] if beside else []
        return self._lists.with_numbers("".join(texts + head + beside).lstrip("\n"))

    def _is_main(self, is_tried: Sequence[bool]) -> list[bool]:
        """Returns for each block whether it is in the main part, which has only blocks that `is_tried` allows."""
        weights = [0] * len(self._parents)
        for one in compress(self._blocks, is_tried):
            weights[one.element] += one.weight if one.weight >= LONG else 0
        for element in range(len(weights) - 1, 0, -1):
            weights[self._parents[element]] += weights[element]
        if weights[0] < LEAST_PARAGRAPHS:
            return list(is_tried)
        # All elements with this share are nested, and the innermost one has the highest number.
        main = max(one for one, weight in enumerate(weights) if weight >= MOST_PARAGRAPHS * weights[0])
        is_inside = [False] * main + [True]
        for parent in self._parents[main + 1 :]:
            is_inside.append(is_inside[parent])
        return [is_one and is_inside[one.element] for one, is_one in zip(self._blocks, is_tried, strict=True)]

    def _end_block(self, lines: int = 0) -> None:
        self._break(lines)
        text, size = "".join(self._block), sum(self._letters.values())
        if size:
            is_linked = CELL not in text and self._letters[True] > size / 2
            self._blocks.append(Block(text, weight_of(text), self._element, is_linked, bool(self._margin)))
        self._block, self._letters = [], {True: 0, False: 0}

    def _open(self, tag: str, attributes: Mapping[str, str]) -> None:
        if tag == "pre" and not self._is_code:
            self._break(2)
            self._write("```")
            self._break(1)
            self._is_code = True
        elif tag in HEADINGS:
            self._break(2)
            self._mark = HEADINGS[tag] + self._numbers()
        elif tag == "li":
            self._break(1)
            self._mark = self._numbers() + self._lists.mark(attributes)
        elif tag in CELLS:
            self._write(CELL)
        else:
            self._break(2 if tag in PARAGRAPHS else 1 if tag in LINES else 0)

    def _numbers(self) -> str:
        """Returns the numbers of the items that have begun without words so far; "" after a bullet."""
        return "" if self._mark == BULLET_MARK or len(self._mark) > LONGEST_MARK else self._mark

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

    def data(self, data: str) -> None:
        """Reads words, for the parser, which may call this several times for a text."""
        if self._is_in_title:
            self.title += data
        if self._unseen:
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
        """Puts at least this many line ends before the next words, unless they are the text's first."""
        if self._has_begun:
            self._breaks = max(self._breaks, lines)
        if lines:
            self._is_space_due = False

    def _write(self, text: str) -> None:
        if self._breaks > 1:
            self._end_block()
        if not self._block:
            self._element = self._around[-1][1] if self._around else 0
        space = " " if self._is_space_due and not self._breaks else ""
        self._block.append("\n" * self._breaks + space + self._mark + text)
        self._letters[self._is_link] += len(text)
        self._breaks, self._mark, self._is_space_due, self._has_begun = 0, "", False, True


def _is_beside(tag: str, attributes: Mapping[str, str]) -> bool:
    if tag in BESIDE or tag in NEVER_BESIDE:
        return tag in BESIDE
    names = f"{attributes.get('class', '')} {attributes.get('id', '')}"
    return (
        attributes.get("role", "").lower() in ROLES
        or "hidden" in (*attributes, *names.split())
        or bool(HIDDEN.search(attributes.get("style", "")))
        or bool(NAMES.search(names) and not MAIN.search(names))
    )
