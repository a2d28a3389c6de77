"""Reads spreadsheets (XLSX, XLSB, XLS, ODS), each value with the name of its column, if the columns have names,
and their comments."""

import re
import zipfile
from collections.abc import Iterator
from datetime import datetime, time
from pathlib import Path

from python_calamine import CalamineWorkbook, PasswordError, SheetTypeEnum

from app.documents.reading.process import ReadMessage, ReadNote, ReadProgress, TextPiece
from app.documents.reading.table import in_pieces, labelled
from app.documents.reading.xml import parsed
from app.errors import DocumentUnreadable

COMMENTS = re.compile(r"content\.xml|xl/(?:\w+/)?comments?\d*\.xml")


def read_sheet(path: Path, name: str) -> Iterator[ReadMessage]:
    """Yields the rows of each sheet. Raises DocumentUnreadable if the file is encrypted or has no values."""
    try:
        book = CalamineWorkbook.from_path(path)
    except PasswordError as error:
        raise DocumentUnreadable(
            f"{name} is encrypted: save it without a password, and add that file."
        ) from error
    sheets = [one.name for one in book.sheets_metadata if one.typ == SheetTypeEnum.WorkSheet]
    filled = 0
    for done, one in enumerate(sheets, start=1):
        sheet = book.get_sheet_by_name(one)
        filled += sheet.height
        if sheet.height:
            yield TextPiece(f"# {one}\n\n")
            yield from in_pieces(labelled([_written(value) for value in row] for row in sheet.iter_rows()))
            yield TextPiece("\n")
        yield ReadProgress(done, len(sheets))
    if comments := [*_comments(path)]:
        yield TextPiece("\n".join(("# Comments\n", *comments, "")))
    if not (filled or comments):
        raise DocumentUnreadable(f"There is no text in {name}, because its sheets have no cells with values.")
    if len(sheets) < len(book.sheet_names):
        yield ReadNote("Its sheets without cells, such as charts, were left out.")


def _comments(path: Path) -> Iterator[str]:
    """Yields the comments of a file in XML, which calamine does not read."""
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            for part in filter(COMMENTS.fullmatch, archive.namelist()):
                for one in parsed(archive.read(part)).iter("{*}comment", "{*}annotation"):
                    words = " ".join("".join(text.itertext()) for text in one.iter("{*}t", "{*}p"))
                    yield " ".join(words.split())


def _written(value: object) -> str:
    """Returns a value as text: 815 for 815.0, and only the date for midnight."""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, datetime) and value.time() == time():
        return str(value.date())
    return str(value)
