"""Reads rich text (RTF) as plain text with striprtf, which leaves out notes, comments, headers and footers."""

import re
from collections.abc import Iterator
from pathlib import Path

from striprtf import striprtf

from app.documents.reading.process import ReadMessage, ReadNote, ReadTitle, TextPiece

TITLE = re.compile(r"\{\\title ([^\\{}]+)\}")
BORDERS = (
    (re.compile(r"(?<!\\)(?=\{|\\f\d)"), "\n"),
    (re.compile(r"(?<!\\)(?=\\fcharset)"), ";"),
    (re.compile(r"(?<![{\\])\\\*(?=\\cs\d)"), ""),
)
"""Positions, and the text that is inserted there: a line end, which means nothing in RTF, or the ";" after a font's
name. Without this text, striprtf's patterns take quadratic or cubic time for some files. The sign before styles of
StarOffice is removed, because striprtf would skip the styled words."""
SKIPPED = re.compile(r"\\(?:footnote|annotation|header[lrf]?|footer[lrf]?)\b")


def read_rich_text(path: Path, name: str) -> Iterator[ReadMessage]:  # noqa: ARG001 - readers have the same arguments
    """Yields the text of a file, its title, and notes about a missing end and about what striprtf leaves out."""
    markup = path.read_text("latin-1").replace("\\bin ", " ")  # striprtf expects a length after \bin
    for place, border in BORDERS:
        markup = place.sub(border, markup)
    if title := TITLE.search(markup):
        yield ReadTitle(title[1])
    yield TextPiece(striprtf.rtf_to_text(markup, errors="replace"))  # type: ignore[no-untyped-call]
    if not markup.rstrip("\0\r\n ").endswith("}"):
        yield ReadNote("Its end is missing: the file was cut off.")
    if SKIPPED.search(markup):
        yield ReadNote("Its footnotes, comments, headers and footers were left out.")
