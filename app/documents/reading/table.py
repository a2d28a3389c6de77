"""Reads a table of values (CSV) with its column's name before each value, because a passage far below the first row
would have numbers without names.

    name,room        name: Ada; room: 12
    Ada,12
"""

import csv
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from app.documents.reading.files import TextFileReader
from app.documents.reading.process import ReadMessage, ReadNote, TextPiece

SNIFFED = 20_000
"""Characters from which the separator is guessed."""
SEPARATORS = ",;\t|"
ROWS = 500
"""Rows of a message."""
COLUMN = re.compile(r"\s*[^\W\d].*", re.DOTALL)
"""A column's name begins with a letter; a first row with anything else has values, too."""


def read_table(path: Path, name: str) -> Iterator[ReadMessage]:
    """Yields the rows of a table; the text as it is if its first row does not name the columns."""
    messages = list(TextFileReader(path, name).messages())
    text = "".join(one.text for one in messages if isinstance(one, TextPiece))
    rows = _rows(text)
    names = [one.strip() for one in next(rows, [])]
    if len(names) > 1 and all(map(COLUMN.fullmatch, names)):
        written = (
            "; ".join(
                f"{column}: {value}" for column, value in zip(names, row, strict=False) if value.strip()
            )
            for row in rows
        )
        while some := list(islice(written, ROWS)):
            yield TextPiece("\n".join(some) + "\n")
    else:
        yield TextPiece(text)
    yield from (one for one in messages if isinstance(one, ReadNote))


def _rows(text: str) -> Iterator[list[str]]:
    """Yields the rows of a table; none if no separator is found."""
    try:
        dialect = csv.Sniffer().sniff(text[:SNIFFED], SEPARATORS)
    except csv.Error:
        return
    yield from csv.reader(text.splitlines(keepends=True), dialect)
