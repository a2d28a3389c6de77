"""Word documents as Markdown: headings, paragraphs, lists and tables in their order."""

import re
import zipfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from docx import Document
from docx.table import Table
from docx.text.paragraph import Paragraph

from app.documents.reading.messages import Message, Moved, Words
from app.errors import DocumentUnreadable

MAIN = "word/document.xml"
LARGEST = 300 * 2**20
"""Bytes that a file may unpack to: a few kilobytes can say that they are many gigabytes."""
HEADING = re.compile(r"heading (\d)", re.IGNORECASE)
TITLE = "Title"
STEP = 100


def read_docx(path: Path, name: str) -> Iterator[Message]:
    """The text of a Word document. Raises DocumentUnreadable for what is none, or too large."""
    _require_docx(path, name)
    document = Document(str(path))
    total = len(document.element.body)
    blocks = (_table(block) if isinstance(block, Table) else _paragraph(block)
              for block in document.iter_inner_content())  # fmt: skip
    done = 0
    while some := list(islice(blocks, STEP)):
        done += len(some)
        yield Words("".join(some))
        yield Moved(done, total)


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


def _paragraph(paragraph: Paragraph) -> str:
    text = paragraph.text.strip()
    if not text:
        return ""
    style = paragraph.style.name or "" if paragraph.style else ""
    if heading := HEADING.match(style):
        return f"{'#' * min(int(heading[1]) or 1, 6)} {' '.join(text.split())}\n\n"
    if style == TITLE:
        return f"# {' '.join(text.split())}\n\n"
    properties = paragraph._p.pPr
    is_item = style.startswith("List") or (properties is not None and properties.numPr is not None)
    return f"- {text}\n" if is_item else f"{text}\n\n"


def _table(table: Table) -> str:
    rows = (" | ".join(" ".join(cell.text.split()) for cell in row.cells) for row in table.rows)
    return "".join(f"| {row} |\n" for row in rows) + "\n"
