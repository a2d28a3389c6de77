"""The table of documents and their states."""

import sqlite3
from dataclasses import dataclass

from app.errors import DocumentNotFound
from app.values.document import Document

SELECT_DOCUMENT = """
    SELECT id, collection, title, source, state, note, characters, passages,
        (SELECT count(*) FROM passage_vector WHERE passage_vector.document = document.id) AS embedded,
        done, total, added,
        ifnull((SELECT max(older.added) FROM document AS older
            WHERE older.replaced_by = document.id AND older.state = 'replaced'), 0.0) AS replaced
    FROM document
"""
SELECT_TEXT = "SELECT id, title, source, origin, digest, characters FROM document"
BUSY = "('waiting', 'reading', 'indexing')"
LEAVING, REPLACED = "leaving", "replaced"
"""Internal states of hidden documents: its rows are being deleted; it is the older version of another one."""
HIDDEN = (LEAVING, REPLACED)
KEPT_VERSIONS = 5
"""Older versions that are kept of a document."""


@dataclass(frozen=True, slots=True)
class DocumentVersion:
    """A document's state and digest. A task compares them to notice changes."""

    state: str
    digest: bytes | None


@dataclass(frozen=True, slots=True)
class StoredText:
    """A document whose text is complete, by what tells it from others; document 0 is none."""

    document: int
    title: str
    source: str = ""
    origin: str = ""
    digest: bytes = b""
    characters: int = 0


def documents(connection: sqlite3.Connection, collection: int) -> tuple[Document, ...]:
    """The documents of a collection, in the order in which they came."""
    rows = connection.execute(
        f"{SELECT_DOCUMENT} WHERE collection = ? AND state NOT IN {HIDDEN} ORDER BY id", (collection,)
    )
    return tuple(Document(*row) for row in rows)


def document(connection: sqlite3.Connection, wanted: int) -> Document:
    """One document. Raises DocumentNotFound."""
    row = connection.execute(
        f"{SELECT_DOCUMENT} WHERE id = ? AND state NOT IN {HIDDEN}", (wanted,)
    ).fetchone()
    if row is None:
        raise DocumentNotFound("This document is no longer there: it has been removed.")
    return Document(*row)


def replaced_since(connection: sqlite3.Connection, moment: float) -> tuple[Document, ...]:
    """The documents whose text was replaced since then; the last one last."""
    rows = connection.execute(
        f"{SELECT_DOCUMENT} WHERE state NOT IN {HIDDEN} AND id IN"
        f" (SELECT replaced_by FROM document WHERE replaced_by IS NOT NULL AND added >= ? AND state = '{REPLACED}')"
        " ORDER BY replaced",
        (moment,),
    )
    return tuple(Document(*row) for row in rows)


def add(
    connection: sqlite3.Connection, collection: int, title: str, source: str, now: float, origin: str = ""
) -> int:
    """Add a document without a text."""
    added = connection.execute(
        "INSERT INTO document (collection, title, source, origin, state, added)"
        " VALUES (?, ?, ?, ?, 'waiting', ?)",
        (collection, title, source, origin, now),
    )
    return int(added.lastrowid or 0)


def same_text(connection: sqlite3.Connection, collection: int, digest: bytes, besides: int = 0) -> int:
    """The document of a collection that has this text; 0 for none."""
    return _first(connection, "collection = ? AND digest = ? AND id <> ?", (collection, digest, besides))


def stored_texts(connection: sqlite3.Connection, collection: int, besides: int = 0) -> list[StoredText]:
    """The documents of a collection whose texts are complete, oldest first."""
    rows = connection.execute(
        f"{SELECT_TEXT} WHERE collection = ? AND digest IS NOT NULL AND id <> ? AND state NOT IN {HIDDEN}"
        " ORDER BY id",
        (collection, besides),
    )
    return [StoredText(*row) for row in rows]


def stored_text(connection: sqlite3.Connection, wanted: int) -> StoredText:
    """The text of one document, hidden or not."""
    return StoredText(*connection.execute(f"{SELECT_TEXT} WHERE id = ?", (wanted,)).fetchone())


def newest_version(connection: sqlite3.Connection, wanted: int) -> StoredText:
    """The newest of the older versions of a document. Raises DocumentNotFound."""
    row = connection.execute(
        f"{SELECT_TEXT} WHERE replaced_by = ? AND state = '{REPLACED}' ORDER BY id DESC LIMIT 1", (wanted,)
    ).fetchone()
    if row is None:
        raise DocumentNotFound("No older version of this document is kept.")
    return StoredText(*row)


def add_version(connection: sqlite3.Connection, wanted: int, now: float) -> int:
    """Add a hidden document for the older text of this one, which has none then; the oldest ones are deleted."""
    added = connection.execute(
        "INSERT INTO document (collection, title, source, origin, state, digest, characters, added, replaced_by)"
        f" SELECT collection, title, source, origin, '{REPLACED}', digest, characters, ?, id"
        " FROM document WHERE id = ?",
        (now, wanted),
    )
    connection.execute(
        f"UPDATE document SET state = '{LEAVING}' WHERE replaced_by = ? AND id NOT IN"
        " (SELECT id FROM document WHERE replaced_by = ? ORDER BY id DESC LIMIT ?)",
        (wanted, wanted, KEPT_VERSIONS),
    )
    return int(added.lastrowid or 0)


def hide(connection: sqlite3.Connection, wanted: int) -> None:
    """Hide a document with its older versions; their rows are deleted in the background."""
    connection.execute(
        f"UPDATE document SET state = '{LEAVING}', done = 0, total = 0 WHERE id = ? OR replaced_by = ?",
        (wanted, wanted),
    )


def set_title(connection: sqlite3.Connection, wanted: int, title: str) -> None:
    """Set the title of a document."""
    connection.execute("UPDATE document SET title = ? WHERE id = ?", (title, wanted))


def set_text(connection: sqlite3.Connection, wanted: int, digest: bytes, characters: int, note: str) -> None:
    """Note that a document's text is complete, and wait for indexing."""
    connection.execute(
        "UPDATE document SET digest = ?, characters = ?, note = ?, state = 'waiting', done = 0, total = 0"
        " WHERE id = ?",
        (digest, characters, note, wanted),
    )


def set_state(connection: sqlite3.Connection, wanted: int, state: str, note: str = "") -> None:
    """Set the state, with progress 0; an empty note keeps the previous one."""
    connection.execute(
        "UPDATE document SET state = ?, note = iif(? = '', note, ?), done = 0, total = 0 WHERE id = ?",
        (state, note, note, wanted),
    )


def set_note(connection: sqlite3.Connection, wanted: int, note: str) -> None:
    """Set the note of a document."""
    connection.execute("UPDATE document SET note = ? WHERE id = ?", (note, wanted))


def set_progress(connection: sqlite3.Connection, wanted: int, done: int, total: int) -> None:
    """Set the progress of a document."""
    connection.execute("UPDATE document SET done = ?, total = ? WHERE id = ?", (done, total, wanted))


def set_ready(connection: sqlite3.Connection, wanted: int, passages: int) -> None:
    """Set a document to ready, so that it is searched."""
    connection.execute(
        "UPDATE document SET state = 'ready', passages = ?, done = ?, total = ? WHERE id = ?",
        (passages, passages, passages, wanted),
    )


def state(connection: sqlite3.Connection, wanted: int) -> str:
    """The state of a document, LEAVING among them; "" when it is gone."""
    row = connection.execute("SELECT state FROM document WHERE id = ?", (wanted,)).fetchone()
    return str(row["state"]) if row else ""


def version(connection: sqlite3.Connection, wanted: int) -> DocumentVersion | None:
    """The version of a document; None when it is deleted."""
    row = connection.execute("SELECT state, digest FROM document WHERE id = ?", (wanted,)).fetchone()
    return DocumentVersion(row["state"], row["digest"]) if row else None


def origin(connection: sqlite3.Connection, wanted: int) -> str:
    """The whole path of the file that a document came from; "" for one that was pasted or uploaded."""
    return str(connection.execute("SELECT origin FROM document WHERE id = ?", (wanted,)).fetchone()["origin"])


def has_text(connection: sqlite3.Connection, wanted: int) -> bool:
    """Whether a document's text is complete."""
    row = connection.execute("SELECT digest FROM document WHERE id = ?", (wanted,)).fetchone()
    return row is not None and row["digest"] is not None


def leaving(connection: sqlite3.Connection) -> list[int]:
    """The documents whose rows are to be deleted."""
    return [row["id"] for row in connection.execute(f"SELECT id FROM document WHERE state = '{LEAVING}'")]


def next_busy(connection: sqlite3.Connection) -> int:
    """The next document to import or index; 0 for none."""
    return _first(connection, f"state IN {BUSY}", ())


def unread(connection: sqlite3.Connection) -> set[int]:
    """The documents whose files are not imported yet."""
    rows = connection.execute(f"SELECT id FROM document WHERE digest IS NULL AND state NOT IN {HIDDEN}")
    return {row["id"] for row in rows}


def last(connection: sqlite3.Connection) -> int:
    """The highest id that a document ever had; 0 before the first one."""
    row = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'document'").fetchone()
    return int(row["seq"]) if row else 0


def delete(connection: sqlite3.Connection, wanted: int) -> None:
    """Delete a document's row; other tables follow by their foreign keys."""
    connection.execute("DELETE FROM document WHERE id = ?", (wanted,))


def _first(connection: sqlite3.Connection, condition: str, values: tuple[object, ...]) -> int:
    row = connection.execute(
        f"SELECT id FROM document WHERE {condition} AND state NOT IN {HIDDEN} ORDER BY id LIMIT 1", values
    ).fetchone()
    return int(row["id"]) if row else 0
