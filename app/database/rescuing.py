"""Saves what SQLite still reads of a damaged database into a new one.

The rows are read page by page (damaged_pages.py), and the types of a row tell which table it is of:

    None, "Dinner", 0, "", 0, …     a chat                 None, 7, None, "user", "Hello", …     a message

A damaged page, even the first one, costs the rows that are on it and no others. The file itself is only read.
"""

import sqlite3
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from tempfile import TemporaryDirectory
from types import NoneType

from app.database.damaged_pages import VALUES, Row, connect_leniently, copy_damaged, leaf_rows
from app.database.files import files_of, is_there, recovery, require_target
from app.database.migrations import migrate, shipped_migrations
from app.database.transactions import store_errors, transaction
from app.errors import StoreNotUsable
from app.system.files import replacing_output

IN_LEAVES = (
    "chat", "message", "preset", "races",
    "collection", "document", "document_text", "passage", "passage_vector",
)  # fmt: skip
"""Tables whose rows are told by their types. The indexes of words are made anew."""
IN_TREES = {
    "folder": "SELECT * FROM folder ORDER BY name {0}",
    "draft": "SELECT * FROM draft ORDER BY chat {0}",
    "race_lanes": "SELECT * FROM race_lanes ORDER BY race {0}, lane {0}",
}
"""Small tables whose rows are like those of others, or are in no leaves of a table."""
LISTED = {
    "chat": "SELECT chat AS id FROM message INDEXED BY message_tree ORDER BY chat {0}",
    "message": "SELECT id FROM message INDEXED BY message_chat ORDER BY id {0}",
    "document": "SELECT id FROM document INDEXED BY document_collection ORDER BY collection {0}, digest {0}",
    "document_text": "SELECT rowid AS id FROM document_text INDEXED BY sqlite_autoindex_document_text_1"
    " ORDER BY document {0}, part {0}",
}
"""How an index lists the ids of a table: it may be whole where the table is not."""
LONG_TEXTS = {"message": 5, "document_text": 3}
"""Tables of long texts, and how many columns there are up to the text: those of which a beginning is saved."""
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
    """How many rows are missing as far as the indexes tell, how many are cut, and whether the indexes are whole."""

    rows: int
    cut: int
    is_exact: bool


def rescue(source: Path, target: Path, mends: Iterable[Mend]) -> Unread:
    """Saves what can be read of the source as a whole database. An existing target is replaced.

    `mends` put in order what refers to missing rows. Raises StoreError, and then no target is written."""
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
                        f"Nothing can be read of {source}. {recovery(None, source.absolute().parent)}"
                    )
    except OSError as error:
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
        cut = sum(_put(rowid, row, tables) for rowid, row in leaf_rows(copy))
        saved.execute("DELETE FROM race_lanes WHERE race NOT IN (SELECT id FROM races)")
        for mend in mends:
            mend(saved)
    missing = sum(len(listed.get(table.name, set()) - table.ids) for table in tables)
    return Unread(missing, cut, is_exact)


def _put(rowid: int, row: Row, tables: Iterable["_Table"]) -> bool:
    """Adds a row to its table, if there is one. Returns whether a cut row was added."""
    table = next((one for one in tables if one.fits(row)), None)
    if table:
        table.put(rowid, row)
    return table is not None and len(row) < len(VALUES)


class _Table:
    """A table of the new database, and what its rows look like in a leaf."""

    def __init__(self, connection: sqlite3.Connection, name: str) -> None:
        columns = connection.execute(f"PRAGMA table_info({name})").fetchall()
        self.name = name
        self.ids: set[int] = set()
        self._connection = connection
        self._types = [TYPES[one["type"]] + ((NoneType,) if _may_be_empty(one) else ()) for one in columns]
        # An INTEGER PRIMARY KEY is the row's id, and its column is empty.
        self._has_id = columns[0]["type"] == "INTEGER" and not any(one["pk"] for one in columns[1:])
        if self._has_id:
            self._types[0] = (NoneType,)
        empty = (one["dflt_value"] or (ZEROS[one["type"]] if one["notnull"] else "NULL") for one in columns)
        self._empty = tuple(connection.execute(f"SELECT {', '.join(empty)}").fetchone())
        self._insert = f"INSERT OR IGNORE INTO {name} VALUES ({', '.join('?' * len(columns))})"

    def fits(self, row: Row) -> bool:
        """Whether this is a row of the table. One of an older schema has nothing in the last columns."""
        own, more = row[: len(self._types)], row[len(self._types) :]
        is_enough = len(row) >= LONG_TEXTS.get(self.name, len(VALUES))
        return (
            is_enough and all(map(isinstance, own, self._types)) and not any(one is not None for one in more)
        )

    def put(self, rowid: int, row: Row) -> None:
        """Adds a row, unless its id is there. What was cut off is empty."""
        pairs = zip_longest(row[: len(self._types)], self._empty)
        values = [empty if value is None else value for value, empty in pairs]
        if self._has_id:
            values[0] = rowid
        self._connection.execute(self._insert, values)
        self.ids.add(rowid)


def _may_be_empty(column: sqlite3.Row) -> bool:
    return not column["pk"] and (not column["notnull"] or column["dflt_value"] is not None)


def _save_trees(copy: Path, saved: sqlite3.Connection) -> tuple[dict[str, set[int]], bool]:
    """Saves the small tables. Returns the ids that indexes list, and whether all indexes could be read."""
    with closing(connect_leniently(copy)) as connection:
        connection.row_factory = sqlite3.Row
        connection.execute("PRAGMA writable_schema = ON")  # what of the schema makes no sense is left out
        for table, query in IN_TREES.items():
            for row in _from_both_ends(connection, query)[0]:
                names, places = ", ".join(row.keys()), ", ".join("?" * len(row))
                saved.execute(f"INSERT OR IGNORE INTO {table} ({names}) VALUES ({places})", tuple(row))
        listed = {table: _from_both_ends(connection, query) for table, query in LISTED.items()}
    ids = {table: {row["id"] for row in rows} for table, (rows, _) in listed.items()}
    return ids, all(is_whole for _, is_whole in listed.values())


def _from_both_ends(connection: sqlite3.Connection, query: str) -> tuple[list[sqlite3.Row], bool]:
    """The rows before the first damaged page and those after the last one; and whether there is no such page."""
    found = []
    for direction in ("ASC", "DESC"):
        try:
            for row in connection.execute(query.format(direction)):
                found.append(row)
            return found, True
        except sqlite3.DatabaseError:  # now from the other end
            continue
    return found, False
