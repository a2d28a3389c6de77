"""Saves all rows that can still be read from a damaged database into a new database.

SQLite reaches a row through a tree of pages, so a damaged page hides all pages below it. But the rows themselves
are in the leaves of the tree, and a leaf by itself is a tree, too. So in a copy of the file the first page is
replaced by a page with a single table, whose root is set to each leaf in turn. The types of a row's values show
its table. A few small tables are read through their trees, and may lose more rows. The damaged file is never
written."""

import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from tempfile import TemporaryDirectory
from types import NoneType
from typing import Any

from app.database.files import files_of, is_there, recovery, require_target
from app.database.migrations import migrate, shipped_migrations
from app.database.transactions import store_errors, transaction
from app.errors import StoreNotUsable
from app.system.files import replacing_output

MAGIC = b"SQLite format 3\0"
HEADER = 100
"""Bytes of the header with which a database file begins."""
PAGE = 4096
"""The size of a page in bytes if the header gives no valid size."""
LEAF = 0x0D
"""The first byte of a table's leaf page."""
VALUES = tuple(f"c{number}" for number in range(20))
"""The columns of the single table, at least as many as any table of the app has."""
Row = list[Any]
IN_LEAVES = (
    "chat", "message", "preset", "races",
    "collection", "document", "document_text", "passage", "passage_vector",
)  # fmt: skip
"""Tables whose rows are recognised by the types of their values. The full-text indexes are rebuilt."""
IN_TREES = {
    "folder": "SELECT * FROM folder ORDER BY name {0}",
    "draft": "SELECT * FROM draft ORDER BY chat {0}",
    "queued": "SELECT * FROM queued ORDER BY id {0}",
    "race_lanes": "SELECT * FROM race_lanes ORDER BY race {0}, lane {0}",
}
"""Queries for small tables whose rows look like those of other tables, or that are not stored in table leaves."""
LISTED = {
    "chat": "SELECT chat AS id FROM message INDEXED BY message_tree ORDER BY chat {0}",
    "message": "SELECT id FROM message INDEXED BY message_chat ORDER BY id {0}",
    "document": "SELECT id FROM document INDEXED BY document_collection ORDER BY collection {0}, digest {0}",
    "document_text": "SELECT rowid AS id FROM document_text INDEXED BY sqlite_autoindex_document_text_1"
    " ORDER BY document {0}, part {0}",
}
"""Queries that list the ids of a table from an index, which may be undamaged although the table is damaged."""
LONG_TEXTS = {"message": 5, "document_text": 3}
"""Tables with long texts, and the number of columns up to the text. The beginning of a cut row is saved."""
TYPES: dict[str, tuple[type, ...]] = {
    "INTEGER": (int,),
    "REAL": (float, int),
    "TEXT": (str,),
    "BLOB": (bytes,),
}
ZEROS = {"INTEGER": "0", "REAL": "0.0", "TEXT": "''", "BLOB": "x''"}
SAVED_ANY = (
    "SELECT EXISTS (SELECT 1 FROM message) OR EXISTS (SELECT 1 FROM chat) OR EXISTS (SELECT 1 FROM document)"
)
Mend = Callable[[sqlite3.Connection], None]


@dataclass(frozen=True, slots=True)
class Unread:
    """The number of missing rows according to the indexes, and the number of rows that were cut off.

    With `is_exact` all indexes could be read, so the counts are exact."""

    rows: int
    cut: int
    is_exact: bool


def rescue(source: Path, target: Path, mends: Iterable[Mend]) -> Unread:
    """Saves the readable rows of the source as a valid database, which replaces an existing target.

    `mends` are called to repair references to missing rows. Raises StoreError, and then leaves the target as it
    was."""
    if not any(map(is_there, files_of(source)[:2])):
        raise StoreNotUsable(f"There is no file {source}. Choose the database that is damaged.")
    require_target(target, source)
    try:
        with (
            TemporaryDirectory(dir=target.parent, prefix="rescue-") as folder,
            replacing_output(target) as draft,
        ):
            copy = copy_damaged(source, Path(folder) / "damaged.sqlite")
            with store_errors(str(target)), closing(sqlite3.connect(draft, isolation_level=None)) as saved:
                unread = _save(copy, saved, mends)
                if not saved.execute(SAVED_ANY).fetchone()[0]:
                    raise StoreNotUsable(
                        f"Nothing in {source} can be read. {recovery(None, source.absolute().parent)}"
                    )
    except OSError as error:
        if str(error.filename) in map(str, files_of(source)):
            raise StoreNotUsable(
                f"{error.filename} cannot be read ({error.strerror}). Give this user read access, and try again."
            ) from error
        raise StoreNotUsable(
            f"{target} cannot be written ({error.strerror}). Choose another file with --out."
        ) from error
    return unread


def _save(copy: Path, saved: sqlite3.Connection, mends: Iterable[Mend]) -> Unread:
    saved.row_factory = sqlite3.Row
    migrate(saved, shipped_migrations(), str(copy))
    saved.execute("PRAGMA foreign_keys = OFF")  # a message may be found before its chat
    tables = [_Table(saved, name) for name in IN_LEAVES]
    with transaction(saved, "BEGIN"):
        listed, is_exact = _save_trees(copy, saved)
        cut = 0
        for rowid, row in leaf_rows(copy):
            if table := next((one for one in tables if one.fits(row)), None):
                table.put(rowid, row)
                cut += len(row) < len(VALUES)
        saved.execute("DELETE FROM race_lanes WHERE race NOT IN (SELECT id FROM races)")
        for mend in mends:
            mend(saved)
    missing = sum(len(listed.get(table.name, set()) - table.ids) for table in tables)
    return Unread(missing, cut, is_exact)


class _Table:
    """A table of the new database, and the types by which its rows are recognised in a leaf."""

    def __init__(self, connection: sqlite3.Connection, name: str) -> None:
        columns = connection.execute(f"PRAGMA table_info({name})").fetchall()
        self.name = name
        self.ids: set[int] = set()
        self._connection = connection
        self._types = [TYPES[one["type"]] for one in columns]
        for at, one in enumerate(columns):
            if not one["pk"] and (not one["notnull"] or one["dflt_value"] is not None):
                self._types[at] += (NoneType,)
        # The column of an INTEGER PRIMARY KEY is stored as NULL, because its value is the row's id.
        self._has_id = columns[0]["type"] == "INTEGER" and not any(one["pk"] for one in columns[1:])
        if self._has_id:
            self._types[0] = (NoneType,)
        empty = (one["dflt_value"] or (ZEROS[one["type"]] if one["notnull"] else "NULL") for one in columns)
        self._empty = tuple(connection.execute(f"SELECT {', '.join(empty)}").fetchone())
        self._insert = f"INSERT OR IGNORE INTO {name} VALUES ({', '.join('?' * len(columns))})"

    def fits(self, row: Row) -> bool:
        """Returns whether this can be a row of the table. The last columns may be missing, as in an older
        schema."""
        own, more = row[: len(self._types)], row[len(self._types) :]
        is_enough = len(row) >= LONG_TEXTS.get(self.name, len(VALUES))
        return (
            is_enough and all(map(isinstance, own, self._types)) and not any(one is not None for one in more)
        )

    def put(self, rowid: int, row: Row) -> None:
        """Adds a row, unless its id is taken. Missing values and NULLs become the columns' defaults."""
        pairs = zip_longest(row[: len(self._types)], self._empty)
        values = [empty if value is None else value for value, empty in pairs]
        if self._has_id:
            values[0] = rowid
        self._connection.execute(self._insert, values)
        self.ids.add(rowid)


def _save_trees(copy: Path, saved: sqlite3.Connection) -> tuple[dict[str, set[int]], bool]:
    """Saves the small tables. Returns the ids that the indexes list, and whether all indexes could be read."""
    with closing(connect_leniently(copy)) as connection:
        connection.row_factory = sqlite3.Row
        connection.execute("PRAGMA writable_schema = ON")  # lets SQLite skip invalid parts of the schema
        for table, query in IN_TREES.items():
            for row in _from_both_ends(connection, query)[0]:
                names, places = ", ".join(row.keys()), ", ".join("?" * len(row))
                saved.execute(f"INSERT OR IGNORE INTO {table} ({names}) VALUES ({places})", tuple(row))
        listed = {table: _from_both_ends(connection, query) for table, query in LISTED.items()}
    ids = {table: {row["id"] for row in rows} for table, (rows, _) in listed.items()}
    return ids, all(is_whole for _, is_whole in listed.values())


def _from_both_ends(connection: sqlite3.Connection, query: str) -> tuple[list[sqlite3.Row], bool]:
    """Reads the rows before the first damaged page and after the last damaged page.

    Returns the rows, and whether no page was damaged."""
    found = []
    for direction in ("ASC", "DESC"):
        try:
            for row in connection.execute(query.format(direction)):
                found.append(row)
            return found, True
        except sqlite3.DatabaseError:  # continue from the other end
            continue
    return found, False


def copy_damaged(source: Path, copy: Path) -> Path:
    """Copies a database, and merges the copy of its WAL into the copy."""
    copy.touch()  # a header is written into it, even if there was only a WAL
    for file, copied in zip(files_of(source)[:2], files_of(copy), strict=False):
        if is_there(file):
            _copy_readable(file, copied)
    with copy.open("r+b") as written:
        old = written.read(PAGE)
        written.seek(0)
        # Any field of the header may be damaged. Reading needs only fields that are the same in every database.
        new = _first_page(_page_size(old), max(copy.stat().st_size, PAGE))
        in_wal_mode = b"\2\2"
        written.write(new[:18] + in_wal_mode + new[20:HEADER] + (old or new)[HEADER:])
    # Any query opens the WAL, and closing merges it into the file.
    with suppress(sqlite3.DatabaseError), closing(sqlite3.connect(copy)) as connection:
        connection.execute("PRAGMA user_version").fetchone()
    return copy


def leaf_rows(copy: Path) -> Iterator[tuple[int, Row]]:
    """Yields the id and the values of each row in any leaf. Overwrites the copy's first page."""
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
    if not leaves:
        return  # SQLite refuses a file of one page, because the root page of `leaf` is missing
    with closing(connect_leniently(copy)) as connection:
        connection.execute("PRAGMA journal_mode = OFF")
        connection.execute("PRAGMA synchronous = OFF")
        for leaf in leaves:
            connection.execute("PRAGMA writable_schema = ON")
            connection.execute("UPDATE sqlite_schema SET rootpage = ?", (leaf,))
            connection.execute("PRAGMA writable_schema = RESET")
            try:
                yield from [(id, row) for id, *row in connection.execute("SELECT rowid, * FROM leaf")]
            except sqlite3.DatabaseError:  # a long row continues in pages that are damaged
                yield from [(id, _cut_row(connection, id)) for id in _ids(connection)]


def connect_leniently(copy: Path) -> sqlite3.Connection:
    """Opens a connection that replaces invalid characters in texts instead of raising an error."""
    connection = sqlite3.connect(copy, isolation_level=None)
    connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
    return connection


def _copy_readable(source: Path, copy: Path) -> None:
    """Copies a file in whole pages. A page that the disk cannot read is filled with zeros."""
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
    is_valid = header.startswith(MAGIC) and size >= 512 and size & (size - 1) == 0
    return size if is_valid else PAGE


def _first_page(page_size: int, file_size: int) -> bytes:
    """Makes the first page of a database of these sizes with a single table, `leaf`."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as new:
        new.execute(f"PRAGMA page_size = {page_size}")
        new.execute(f"CREATE TABLE leaf ({', '.join(VALUES)})")
        page = new.serialize()[:page_size]
    return page[:28] + (file_size // page_size).to_bytes(4, "big") + page[32:]


def _ids(connection: sqlite3.Connection) -> list[int]:
    found = []
    with suppress(sqlite3.DatabaseError):
        for row in connection.execute("SELECT rowid FROM leaf"):
            found.append(row[0])
    return found


def _cut_row(connection: sqlite3.Connection, rowid: int) -> Row:
    """Reads a row's values up to the value that continues in a damaged page, and the beginning of this value."""
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
