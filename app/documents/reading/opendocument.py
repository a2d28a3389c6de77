"""Reads texts of OpenDocument (ODT) as Markdown."""

import re
from collections.abc import Iterator
from pathlib import Path

from odfdo import Document

from app.documents.reading.process import ReadMessage, ReadTitle, TextPiece

ESCAPED = re.compile(r"\\([!-/:-@\[-`{-~])")
"""A sign with the backslash that keeps it from being Markdown: "snake\\_case" would not be found."""


def read_opendocument(path: Path, name: str) -> Iterator[ReadMessage]:  # noqa: ARG001 - readers have the same arguments
    """Yields the text of a document, and then its comments."""
    document = Document(path)
    yield ReadTitle(document.meta.title or "")
    yield TextPiece(ESCAPED.sub(r"\1", str(document.to_markdown())) + "\n")
    for comment in document.body.get_elements("descendant::office:annotation"):
        yield TextPiece(f"\nComment: {' '.join(one.inner_text for one in comment.get_elements('text:p'))}\n")
