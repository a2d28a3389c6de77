"""Reads a PDF as the text of its pages, with a page break between them."""

import re
from collections.abc import Iterator
from pathlib import Path

from pypdf import PdfReader
from pypdf.errors import PyPdfError

from app.documents.reading.process import ReadMessage, ReadNote, ReadProgress, TextPiece
from app.errors import DocumentUnreadable
from app.values.display_text import counted

PAGE_BREAK = "\f"
CUT_WORD = re.compile(r"(?<=[^\W\d_])(?:\u00ad|(?<=[a-z\u00df-\u00ff])-)\n(?=[a-z\u00df-\u00ff])")
"""A word that is hyphenated at the end of a line: "infor-" above "mation"."""


def read_pdf(path: Path, name: str) -> Iterator[ReadMessage]:
    """Yields the text of a PDF. Raises DocumentUnreadable if it is encrypted or has only pictures."""
    reader = PdfReader(path)
    if reader.is_encrypted and not reader.decrypt(""):
        raise DocumentUnreadable(
            f"{name} is encrypted: open it with its password, save it without one, and add that."
        )
    total = len(reader.pages)
    empty = broken = 0
    for number in range(total):
        text = _page_text(reader, number)
        empty += text == ""
        broken += text is None
        yield TextPiece((PAGE_BREAK if number else "") + _tidied(text or "") + "\n\n")
        yield ReadProgress(number + 1, total)
    if empty + broken == total:
        raise DocumentUnreadable(
            f"{name} has no text in its {counted(total, 'page')}, only pictures: have the text recognised (OCR) "
            "first, and add what comes out."
        )
    if empty:
        yield ReadNote(f"{counted(empty, 'page')} of {total:,} without text, pictures perhaps: left out.")
    if broken:
        yield ReadNote(f"{counted(broken, 'page')} of {total:,} could not be read: left out.")


def _page_text(reader: PdfReader, number: int) -> str | None:
    """Returns the text of a page; None if it is damaged."""
    try:
        return reader.pages[number].extract_text().strip()
    except (PyPdfError, ValueError, KeyError, TypeError, IndexError, AttributeError, OverflowError):
        return None


def _tidied(text: str) -> str:
    lines = "\n".join(line.rstrip() for line in text.replace(PAGE_BREAK, "\n").splitlines())
    return CUT_WORD.sub("", lines)
