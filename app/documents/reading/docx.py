"""Word documents as Markdown: headings, paragraphs, lists, tables and notes in their order."""

import zipfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from docx import Document
from docx.document import Document as Opened
from docx.opc.constants import RELATIONSHIP_TYPE as RELATION
from docx.opc.part import Part
from docx.oxml.parser import parse_xml
from docx.oxml.xmlchemy import BaseOxmlElement as Element

from app.documents.reading.messages import Message, Moved, Told, Words
from app.documents.reading.word_markup import WORD, Markup, has_words
from app.errors import DocumentUnreadable

MAIN = "word/document.xml"
LARGEST = 300 * 2**20
"""Bytes that a file may unpack to: a few kilobytes can say that they are many gigabytes."""
STEP = 100
NOTES = ((RELATION.FOOTNOTES, "footnote"), (RELATION.ENDNOTES, "endnote"))
MARGINS = (RELATION.HEADER, RELATION.FOOTER)


def read_docx(path: Path, name: str) -> Iterator[Message]:
    """The text of a Word document. Raises DocumentUnreadable for what is none, or too large."""
    _require_docx(path, name)
    document = Document(str(path))
    body = document.element.body
    blocks, total, done = map(_markup(document).markdown, body), len(body), 0
    while some := list(islice(blocks, STEP)):
        done += len(some)
        yield Words("".join(some))
        yield Moved(done, total)
    if any(has_words(parse_xml(part.blob)) for relation in MARGINS for part in _parts(document, relation)):
        yield Told("What stands at the top and the bottom of each page was left out.")


def _markup(document: Opened) -> Markup:
    styles = {style.style_id: style.name or "" for style in document.styles}
    return Markup(styles, dict(_notes(document)))


def _notes(document: Opened) -> Iterator[tuple[tuple[str, str], Element]]:
    """The notes of a document by what refers to them."""
    for relation, kind in NOTES:
        for part in _parts(document, relation):
            for note in parse_xml(part.blob).findall(f"{WORD}{kind}"):
                yield (f"{WORD}{kind}Reference", note.get(f"{WORD}id", "")), note


def _parts(document: Opened, relation: str) -> Iterator[Part]:
    relations = document.part.rels.values()
    return (one.target_part for one in relations if one.reltype == relation and not one.is_external)


def _require_docx(path: Path, name: str) -> None:
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
            size = sum(info.file_size for info in archive.infolist())
    except zipfile.BadZipFile as error:
        raise DocumentUnreadable(f"{name} is damaged: save it anew and add that.") from error
    if MAIN not in names:
        raise DocumentUnreadable(f"{name} is an archive and no Word document: add the files in it instead.")
    if size > LARGEST:
        raise DocumentUnreadable(
            f"{name} unpacks to {size / 2**20:,.0f} MB, and up to {LARGEST / 2**20:,.0f} MB are read: save its "
            "text alone, and add that."
        )
