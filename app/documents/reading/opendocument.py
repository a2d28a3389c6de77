"""Reads texts and presentations of OpenDocument (ODT, ODP), and all its flat files, as Markdown, element by
element, so that no words of an unknown element are lost. Notes, comments and text boxes follow the paragraph to
which they belong."""

import re
import zipfile
from collections.abc import Iterable, Iterator
from itertools import repeat
from pathlib import Path

from lxml.etree import _Element as Element

from app.documents.reading.lists import BULLET
from app.documents.reading.opendocument_lists import Lists, attribute, kind_of, number_of
from app.documents.reading.process import ReadMessage, ReadTitle, TextPiece
from app.documents.reading.table import labelled
from app.documents.reading.xml import parsed

UNSEEN = frozenset(
    ("tracked-changes", "note-citation", "ruby-text", "forms", "scripts", "creator", "date", "number")
)
BLANKS = re.compile(r"[ \t\r\n]+")
SIGNS = {"tab": "\t", "line-break": "\n"}
OBJECT = re.compile(r"[^/]+/content\.xml")
PARAGRAPHS = ("p", "h")
BESIDE = {"note": "", "text-box": "", "annotation": "Comment: "}
"""Elements of a paragraph whose text is written after the paragraph, each with the words that precede the text."""


def read_opendocument(path: Path, name: str) -> Iterator[ReadMessage]:  # noqa: ARG001 - readers have the same arguments
    """Yields the text of an archive or of a flat file, whose only part has everything."""
    if not zipfile.is_zipfile(path):
        parts, objects = [path.read_bytes()], {}
    else:
        with zipfile.ZipFile(path) as archive:
            names = ("meta.xml", "styles.xml", "content.xml")
            parts = [archive.read(one) for one in names if one in archive.namelist() or one == names[-1]]
            objects = {one: archive.read(one) for one in archive.namelist() if OBJECT.fullmatch(one)}
    roots = [parsed(one) for one in parts]
    for one in roots[-1].iter("{*}object"):
        one.text = _formula(objects.get(f"{attribute(one, 'href').removeprefix('./')}/content.xml", b""))
    yield ReadTitle(roots[0].findtext(".//{*}meta/{*}title") or "")
    yield from map(TextPiece, _Blocks(Lists(*roots)).of(roots[-1].iterfind("{*}body")))


def _formula(data: bytes) -> str:
    """Returns the signs of an embedded formula (MathML) without its source; "" for another object."""
    root = parsed(data or b"<none/>")
    for source in root.iter("{*}annotation"):
        source.text = ""
    return "".join(root.itertext()) if kind_of(root) == "math" else ""


class _Blocks:
    """Turns elements into Markdown. The items of lists have the labels that `lists` gives them."""

    def __init__(self, lists: Lists) -> None:
        self._lists = lists
        self._label = ""
        """The label of the item whose first paragraph comes next."""

    def of(self, element: Iterable[Element]) -> Iterator[str]:
        """Yields the text of each paragraph, list item and row of a table within an element."""
        for one in element:
            kind = kind_of(one)
            if kind in PARAGRAPHS:
                yield from self._paragraph(one, number_of(one, "outline-level") if kind == "h" else 0)
            elif kind == "list":
                self._lists.begin(one)
                yield from self.of(one)
                self._lists.end()
            elif kind in ("list-item", "list-header"):
                yield from self._item(one, has_label=kind == "list-item")
            elif kind == "table-row":
                cells = (" ".join("".join(self.of(cell)).split()) for cell in one)
                yield f"| {' | '.join(cells)} |\n"
            elif kind == "spreadsheet":
                yield from self._sheets(one)
            elif kind == "page":
                yield f"# {attribute(one, 'name')}\n\n"
                yield from self.of(one)
            elif kind not in UNSEEN:
                yield from self.of(one)
                yield "\n" * (kind == "table")

    def _sheets(self, book: Element) -> Iterator[str]:
        for sheet in book.iter("{*}table"):
            rows = ([*self._values(row)] for row in sheet.iter("{*}table-row"))
            yield f"# {attribute(sheet, 'name')}\n\n"
            yield from (f"{line}\n" for line in labelled(rows))
            yield "\n"

    def _values(self, row: Element) -> Iterator[str]:
        for cell in row:
            value = " ".join("".join(self.of(cell)).split())
            if value or cell.getnext() is not None:  # a row often ends with thousands of empty cells
                yield from repeat(value, number_of(cell, "number-columns-repeated"))

    def _item(self, item: Element, has_label: bool) -> Iterator[str]:
        first = next((kind for one in item if (kind := kind_of(one)) not in UNSEEN), "")
        if has_label and first not in PARAGRAPHS:  # an item that only holds a deeper list is not counted
            yield from self.of(item)
            return
        self._label = self._lists.item_label(item) if has_label else ""
        text = "".join(self.of(item)).strip().replace("\n\n", "\n")
        yield text.replace("\n", "\n  ") + "\n\n" if text else ""

    def _paragraph(self, element: Element, level: int) -> Iterator[str]:
        label, self._label = self._label, ""
        if level:
            label = label.removeprefix(f"{BULLET} ") or self._lists.heading_label(element, level)
        beside: list[str] = []
        text = self._words(element, beside).strip()
        if text:
            yield (
                f"{'#' * min(level, 6)} {label}{' '.join(text.split())}\n\n"
                if level
                else f"{label}{text}\n\n"
            )
        yield from beside

    def _words(self, element: Element, beside: list[str]) -> str:
        """Returns the words in a paragraph, and adds the blocks that follow it to `beside`."""
        found = [BLANKS.sub(" ", element.text or "")]
        for one in element:
            kind = kind_of(one)
            if kind in BESIDE:
                beside.append(BESIDE[kind] + "".join(self.of(one)))
            elif kind in ("desc", "title"):
                found.append(f" [Picture: {one.text or ''}] ")
            elif kind == "s":
                found.append(" " * number_of(one, "c"))
            elif kind not in UNSEEN:
                found.append(SIGNS.get(kind) or self._words(one, beside))
            found.append(BLANKS.sub(" ", one.tail or ""))
        return "".join(found)
