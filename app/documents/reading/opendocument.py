"""Reads texts and presentations of OpenDocument (ODT, ODP) as Markdown, element by element, so that no words of an
unknown element are lost. Notes, comments and text boxes follow the paragraph to which they belong."""

import zipfile
from collections.abc import Iterator
from pathlib import Path

from docx.oxml.parser import parse_xml
from docx.oxml.xmlchemy import BaseOxmlElement as Element

from app.documents.reading.process import ReadMessage, ReadTitle, TextPiece

UNSEEN = frozenset(("tracked-changes", "note-citation", "ruby-text", "forms", "scripts", "creator", "date"))
SIGNS = {"tab": "\t", "line-break": "\n"}
BESIDE = {"note": "", "text-box": "", "annotation": "Comment: "}
"""Elements of a paragraph whose text is written after the paragraph, each with the words that precede the text."""


def read_opendocument(path: Path, name: str) -> Iterator[ReadMessage]:  # noqa: ARG001 - readers have the same arguments
    with zipfile.ZipFile(path) as archive:
        if "meta.xml" in archive.namelist():
            yield ReadTitle(parse_xml(archive.read("meta.xml")).findtext(".//{*}title") or "")
        yield from map(TextPiece, _blocks(parse_xml(archive.read("content.xml")).find("{*}body")))


def _blocks(element: Element) -> Iterator[str]:
    for one in element:
        kind = _kind(one)
        if kind in ("p", "h"):
            yield from _paragraph(one, int(_attribute(one, "outline-level") or 1) if kind == "h" else 0)
        elif kind in ("list-item", "list-header"):
            mark = "- " if kind == "list-item" else ""
            yield mark + "".join(_blocks(one)).strip().replace("\n\n", "\n").replace("\n", "\n  ") + "\n\n"
        elif kind == "table-row":
            cells = (" ".join("".join(_blocks(cell)).split()) for cell in one)
            yield f"| {' | '.join(cells)} |\n"
        elif kind == "page":
            yield f"# {_attribute(one, 'name')}\n\n"
            yield from _blocks(one)
        elif kind not in UNSEEN:
            yield from _blocks(one)
            yield "\n" * (kind == "table")


def _paragraph(element: Element, level: int) -> Iterator[str]:
    beside: list[str] = []
    text = _words(element, beside).strip()
    if text:
        yield f"{'#' * min(level, 6)} {' '.join(text.split())}\n\n" if level else f"{text}\n\n"
    yield from beside


def _words(element: Element, beside: list[str]) -> str:
    """Returns the words in a paragraph, and adds the blocks that follow it to `beside`."""
    found = [element.text or ""]
    for one in element:
        kind = _kind(one)
        if kind in BESIDE:
            beside.append(BESIDE[kind] + "".join(_blocks(one)))
        elif kind in ("desc", "title"):
            found.append(f" [Picture: {one.text or ''}] ")
        elif kind == "s":
            found.append(" " * int(_attribute(one, "c") or 1))
        elif kind not in UNSEEN:
            found.append(SIGNS.get(kind) or _words(one, beside))
        found.append(one.tail or "")
    return "".join(found)


def _kind(element: Element) -> str:
    return str(element.tag).rpartition("}")[2]


def _attribute(element: Element, name: str) -> str:
    return next((value for key, value in element.items() if key.endswith(f"}}{name}")), "")
