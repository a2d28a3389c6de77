"""Reads a PDF as the text of its pages, with a page break between them, by PDFium.

The values of a page's form fields and its comments follow its text.
"""

import ctypes
from collections.abc import Iterator
from pathlib import Path

from pypdfium2 import PdfDocument, PdfiumError, PdfPage, raw

from app.documents.reading.process import ReadMessage, ReadNote, ReadProgress, TextPiece
from app.errors import DocumentUnreadable
from app.values.display_text import counted

PAGE_BREAK = "\f"
HYPHEN = "\ufffe"
"""PDFium's sign for a hyphen at the end of a line."""
TYPED = (b"V", b"Contents")
"""What users type into a PDF: the values of form fields and the texts of comments."""


def read_pdf(path: Path, name: str) -> Iterator[ReadMessage]:
    """Yields the text of a PDF. Raises DocumentUnreadable if it is encrypted or has only pictures."""
    with _opened(path, name) as document:
        total = len(document)
        empty = broken = 0
        for number in range(total):
            text = _page_text(document, number)
            empty += text == ""
            broken += text is None
            yield TextPiece((PAGE_BREAK if number else "") + _tidied(text or "") + "\n\n")
            yield ReadProgress(number + 1, total)
        if document.get_formtype() in (raw.FORMTYPE_XFA_FULL, raw.FORMTYPE_XFA_FOREGROUND):
            yield ReadNote("It has an XFA form, whose values may be missing.")
    if empty + broken == total:
        raise DocumentUnreadable(
            f"{name} has no text in its {counted(total, 'page')}, only pictures: have the text recognised (OCR) "
            "first, and add what comes out."
        )
    if empty:
        yield ReadNote(f"{counted(empty, 'page')} of {total:,} without text, pictures perhaps: left out.")
    if broken:
        yield ReadNote(f"{counted(broken, 'page')} of {total:,} could not be read: left out.")


def _opened(path: Path, name: str) -> PdfDocument:
    try:
        return PdfDocument(path)
    except PdfiumError as error:
        if error.err_code != raw.FPDF_ERR_PASSWORD:
            raise
        raise DocumentUnreadable(
            f"{name} is encrypted: open it with its password, save it without one, and add that."
        ) from error


def _page_text(document: PdfDocument, number: int) -> str | None:
    """Returns the text of a page and what was typed on it; None if the page is damaged."""
    try:
        page = document[number]
        text = page.get_textpage().get_text_range()
        return "\n".join(filter(None, (text.strip(), *_typed(page))))
    except PdfiumError:
        return None


def _typed(page: PdfPage) -> Iterator[str]:
    """Yields the values of the page's form fields and its comments."""
    for number in range(raw.FPDFPage_GetAnnotCount(page)):
        annotation = raw.FPDFPage_GetAnnot(page, number)
        yield from (text for key in TYPED if (text := _string(annotation, key).strip()))
        raw.FPDFPage_CloseAnnot(annotation)


def _string(annotation: object, key: bytes) -> str:
    size = raw.FPDFAnnot_GetStringValue(annotation, key, None, 0)
    buffer = ctypes.create_string_buffer(size)
    raw.FPDFAnnot_GetStringValue(annotation, key, ctypes.cast(buffer, ctypes.POINTER(raw.FPDF_WCHAR)), size)
    return buffer.raw[:-2].decode("utf-16-le", "replace")


def _tidied(text: str) -> str:
    plain = text.replace(HYPHEN, "").replace(PAGE_BREAK, "\n")
    return "\n".join(line.rstrip() for line in plain.splitlines())
