"""Reads a table of values (CSV). Each value gets the name of its column, because a passage far below the first row
would otherwise have numbers without names."""

import csv
import re
from collections.abc import Iterable, Iterator
from itertools import chain, count, islice, pairwise, zip_longest
from pathlib import Path

from app.documents.reading.files import TextFileReader
from app.documents.reading.process import ReadMessage, ReadNote, TextPiece

SNIFFED = 20_000
"""Maximum number of characters from which the separator is guessed."""
SEPARATORS = ",;\t|"
ROWS = 500
"""Maximum number of rows in a message."""
TRIED = 20
"""Number of rows at the beginning among which the row with the names of the columns may be."""
YEAR = re.compile(r"(?:19|20)\d\d")
COLUMN = re.compile(r"\s*[^\W\d].*", re.DOTALL)
"""The name of a column, which begins with a letter."""


def read_table(path: Path, name: str) -> Iterator[ReadMessage]:
    """Yields the rows of a table, or the unchanged text if its first row does not name the columns; then notes."""
    messages = list(TextFileReader(path, name).messages())
    text = "".join(one.text for one in messages if isinstance(one, TextPiece))
    rows = _rows(text)
    first = next(rows, [])
    if _names_columns(first):
        yield from in_pieces(labelled(chain([first], rows)))
    else:
        yield TextPiece(text)
    yield from (one for one in messages if isinstance(one, ReadNote))


def labelled(rows: Iterable[list[str]]) -> Iterator[str]:
    """Yields a line for each row with values, each value with the name of its column.

    The row of names is searched for in the first TRIED rows. Rows above it, or all rows if there is none, get no
    names. The last line has the names of the columns without values."""
    names: list[str] = []
    used: set[int] = set()
    for row, place in zip(rows, count()):
        if not names and place < TRIED and _names_columns(list(filter(str.strip, row))):
            names = [one.strip() for one in row]
        elif any(map(str.strip, row)):
            used.update(column for column, value in enumerate(row) if value.strip())
            columns = zip_longest(names, row, fillvalue="")
            yield "; ".join(f"{name}: {value}" if name else value for name, value in columns if value.strip())
    if unused := [name for column, name in enumerate(names) if name and column not in used]:
        yield "; ".join(unused)


def in_pieces(lines: Iterator[str]) -> Iterator[TextPiece]:
    while some := list(islice(lines, ROWS)):
        yield TextPiece("\n".join(some) + "\n")


def _names_columns(row: list[str]) -> bool:
    """Returns whether a row has names of columns, which may include consecutive years: "Item", "2025", "2026"."""
    years = [int(one) for one in row[1:] if YEAR.fullmatch(one)]
    is_series = len(years) > 1 and all(abs(one - other) == 1 for one, other in pairwise(years))
    return len(row) > 1 and all(
        COLUMN.fullmatch(one.strip()) or (is_series and YEAR.fullmatch(one)) for one in row
    )


def _rows(text: str) -> Iterator[list[str]]:
    try:
        dialect = csv.Sniffer().sniff(text[:SNIFFED], SEPARATORS)
    except csv.Error:
        return
    yield from csv.reader(text.splitlines(keepends=True), dialect)
