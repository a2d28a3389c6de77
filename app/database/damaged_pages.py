"""Reads the rows of a damaged database, each page by itself.

SQLite reaches a row through a tree of pages, so a damaged page hides all that is below it. But the rows themselves
are in the leaves of the tree, and a leaf by itself is a tree, too. So in a copy of the file the first page is
replaced by one that has a single table, which begins at each leaf in turn.
"""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from app.database.files import files_of, is_there

MAGIC = b"SQLite format 3\0"
HEADER = 100
"""Bytes at the beginning of a database."""
PAGE = 4096
"""The size of a page where the file does not tell."""
LEAF = 0x0D
"""The first byte of a table's leaf page."""
VALUES = tuple(f"c{number}" for number in range(20))
"""The columns of a table that is as wide as any of ours."""
Row = list[Any]


def copy_damaged(source: Path, copy: Path) -> Path:
    """Copies a database, and moves what is in its WAL into the copy."""
    copy.touch()  # there may be a WAL alone
    for file, copied in zip(files_of(source)[:2], files_of(copy), strict=False):
        if is_there(file):
            _copy_readable(file, copied)
    with copy.open("r+b") as written:
        old = written.read(PAGE)
        written.seek(0)
        # Any field of the header may be damaged, and for reading all are the same in every database.
        new = _first_page(_page_size(old), max(copy.stat().st_size, PAGE))
        in_wal_mode = b"\2\2"
        written.write(new[:18] + in_wal_mode + new[20:HEADER] + (old or new)[HEADER:])
    # Any reading opens the WAL, and closing moves it.
    with suppress(sqlite3.DatabaseError), closing(sqlite3.connect(copy)) as connection:
        connection.execute("PRAGMA user_version").fetchone()
    return copy


def leaf_rows(copy: Path) -> Iterator[tuple[int, Row]]:
    """The rows of all leaves with their ids. The copy's first page is lost."""
    with copy.open("r+b") as file:
        size = _page_size(file.read(HEADER))
        length = os.fstat(file.fileno()).st_size
        leaves = []
        for at in range(size, length, size):
            file.seek(at)
            if file.read(1) == bytes([LEAF]):
                leaves.append(at // size + 1)
        file.seek(0)
        file.write(_first_page(size, length))
    with closing(connect_leniently(copy)) as connection:
        connection.execute("PRAGMA journal_mode = OFF")
        connection.execute("PRAGMA synchronous = OFF")
        for leaf in leaves:
            connection.execute("PRAGMA writable_schema = ON")
            connection.execute("UPDATE sqlite_schema SET rootpage = ?", (leaf,))
            connection.execute("PRAGMA writable_schema = RESET")
            yield from _rows_of_leaf(connection)


def connect_leniently(copy: Path) -> sqlite3.Connection:
    """A connection that replaces what is no text in a text."""
    connection = sqlite3.connect(copy, isolation_level=None)
    connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
    return connection


def _copy_readable(source: Path, copy: Path) -> None:
    """Copies a file in whole pages. One that the disk does not read is filled with zeros."""
    with source.open("rb", buffering=0) as file, copy.open("wb") as written:
        for at in range(0, os.fstat(file.fileno()).st_size, PAGE):
            file.seek(at)
            try:
                page = file.read(PAGE)
            except OSError:
                page = b""
            written.write(page.ljust(PAGE, b"\0"))


def _page_size(header: bytes) -> int:
    size = int.from_bytes(header[16:18], "big")
    is_told = header.startswith(MAGIC) and size >= 512 and size & (size - 1) == 0
    return size if is_told else PAGE


def _first_page(page_size: int, file_size: int) -> bytes:
    """The first page of a database of this size with a table `leaf`."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as new:
        new.execute(f"PRAGMA page_size = {page_size}")
        new.execute(f"CREATE TABLE leaf ({', '.join(VALUES)})")
        page = new.serialize()[:page_size]
    return page[:28] + (file_size // page_size).to_bytes(4, "big") + page[32:]


def _rows_of_leaf(connection: sqlite3.Connection) -> list[tuple[int, Row]]:
    try:
        return [(rowid, values) for rowid, *values in connection.execute("SELECT rowid, * FROM leaf")]
    except sqlite3.DatabaseError:  # a long row goes on in pages that are damaged
        return [(rowid, _cut_row(connection, rowid)) for rowid in _ids(connection)]


def _ids(connection: sqlite3.Connection) -> list[int]:
    found = []
    with suppress(sqlite3.DatabaseError):
        for row in connection.execute("SELECT rowid FROM leaf"):
            found.append(row[0])
    return found


def _cut_row(connection: sqlite3.Connection, rowid: int) -> Row:
    """The values of a row up to the one that goes on in a damaged page, and the beginning of that one."""
    values: Row = []
    for column in VALUES:
        try:
            found = connection.execute(f"SELECT {column} FROM leaf WHERE rowid = ?", (rowid,)).fetchone()
        except sqlite3.DatabaseError:
            return [*values, _beginning(connection, column, rowid)]
        values += found or ()
    return values


def _beginning(connection: sqlite3.Connection, column: str, rowid: int) -> str:
    read = b""
    with suppress(sqlite3.DatabaseError), connection.blobopen("leaf", column, rowid, readonly=True) as blob:
        while part := blob.read(HEADER):
            read += part
    return read.decode("utf-8", "ignore")
