"""The table of documents, and the table of collections, which are sets of documents that are searched together."""

import sqlite3
from dataclasses import dataclass
from itertools import count
from typing import get_args

from app.errors import BadOption, DocumentNotFound
from app.values.display_text import numbered
from app.values.document import ATTACHED, UNFINISHED, Collection, Document, DocumentState
from app.values.text_normalisation import name_key

SELECT_DOCUMENT = """
    SELECT id, collection, title, source, state, note, characters, passages,
        (SELECT count(*) FROM passage_vector WHERE passage_vector.document = document.id) AS embedded,
        done, total, added,
        ifnull((SELECT max(older.added) FROM document AS older
            WHERE older.replaced_by = document.id AND older.state = 'replaced'), 0.0) AS replaced
    FROM document
"""
SELECT_TEXT = "SELECT id, title, source, origin, digest, characters FROM document"
LEAVING, REPLACED, REMOVED = "leaving", "replaced", "removed-"
"""The states of hidden documents. In state LEAVING, a document's rows are being deleted. REPLACED marks an older
version of another document. A document that can be restored has REMOVED as a prefix of the state that it had."""
HIDDEN = (LEAVING, REPLACED, *(f"{REMOVED}{state}" for state in get_args(DocumentState)))
KEPT_VERSIONS = 5
"""Maximum number of a document's older versions that are kept."""
SELECT_COLLECTIONS = f"""
    SELECT collection.id, collection.name, count(document.id) AS documents,
        coalesce(sum(iif(document.state = 'ready', document.characters, 0)), 0) AS characters,
        coalesce(sum(iif(document.state = 'ready', document.passages, 0)), 0) AS passages
    FROM collection LEFT JOIN document
        ON document.collection = collection.id AND document.state NOT IN {HIDDEN}
    WHERE NOT collection.is_leaving
    GROUP BY collection.id ORDER BY collection.name COLLATE NOCASE, collection.id
"""
LONGEST = 100
"""Maximum number of characters of a collection's name, to which restoring may add a number."""


@dataclass(frozen=True, slots=True)
class DocumentVersion:
    """A document's state and digest, which show whether the document has changed.

    The digest is None until the text is complete."""

    state: str
    digest: bytes | None


@dataclass(frozen=True, slots=True)
class StoredText:
    """A document's text, with its digest and its length once the text is complete.

    `document` is the document's id; 0 if nothing is stored yet. `origin` is the path of its file; "" for pasted
    texts and uploads."""

    document: int
    title: str
    source: str = ""
    origin: str = ""
    digest: bytes = b""
    characters: int = 0


# Collections


def collections(connection: sqlite3.Connection) -> tuple[Collection, ...]:
    """Returns the collections that are not hidden, sorted by name."""
    return tuple(Collection(*row) for row in connection.execute(SELECT_COLLECTIONS))


def create_collection(connection: sqlite3.Connection, now: float, name: str) -> int:
    """Adds an empty collection. Returns its id.

    Raises BadOption if the name is empty, taken or reserved for chats."""
    return _insert(connection, now, _free_name(connection, name))


def create_attached(connection: sqlite3.Connection, now: float, title: str) -> int:
    """Adds an empty collection that belongs to a chat. Returns its id.

    Its name is ATTACHED and the title, cut to LONGEST, with a number if that name is taken."""
    title = " ".join(title.split())
    for number in count(1):
        end = f" ({number})" if number > 1 else ""
        name = f"{ATTACHED}{title[: LONGEST - len(ATTACHED) - len(end)]}{end}"
        if not _is_taken(connection, name):
            break
    return _insert(connection, now, name)


def _insert(connection: sqlite3.Connection, now: float, name: str) -> int:
    added = connection.execute("INSERT INTO collection (name, created) VALUES (?, ?)", (name, now))
    return int(added.lastrowid or 0)


def rename_collection(connection: sqlite3.Connection, collection: int, name: str) -> None:
    """Renames a collection, which then no longer belongs to a chat. Raises BadOption, DocumentNotFound."""
    require_collection(connection, collection)
    free = _free_name(connection, name, besides=collection)
    connection.execute("UPDATE collection SET name = ? WHERE id = ?", (free, collection))


def hide_collection(connection: sqlite3.Connection, collection: int) -> tuple[int, ...]:
    """Hides a collection with its documents, until it is restored or erased. Returns the documents that it hides.

    Raises DocumentNotFound."""
    hidden = tuple(document.id for document in documents(connection, collection))
    for document in hidden:
        hide(connection, document)
    connection.execute("UPDATE collection SET is_leaving = 2 WHERE id = ?", (collection,))
    return hidden


def show_collection(connection: sqlite3.Connection, collection: int) -> None:
    """Restores a hidden collection, but not its documents. If its name is taken, a number is added to the name.

    Raises DocumentNotFound if it was erased."""
    row = connection.execute("SELECT name FROM collection WHERE id = ? AND is_leaving = 2", (collection,))
    if not (found := row.fetchone()):
        require_collection(connection, collection)
        return
    free = next(name for name in numbered(found["name"]) if not _is_taken(connection, name, collection))
    connection.execute("UPDATE collection SET name = ?, is_leaving = 0 WHERE id = ?", (free, collection))


def delete_empty_collections(connection: sqlite3.Connection) -> None:
    """Deletes the collections that are to be erased and have no documents left."""
    connection.execute(
        "DELETE FROM collection WHERE is_leaving = 1 AND id NOT IN (SELECT collection FROM document)"
    )


def require_collection(connection: sqlite3.Connection, collection: int) -> None:
    """Raises DocumentNotFound for an unknown or a hidden collection."""
    found = connection.execute(
        "SELECT 1 FROM collection WHERE id = ? AND NOT is_leaving", (collection,)
    ).fetchone()
    if not found:
        raise DocumentNotFound("This collection is no longer there: choose another one from the list.")


def _free_name(connection: sqlite3.Connection, name: str, besides: int = 0) -> str:
    """Returns a name that was typed for a collection, with single spaces, cut to LONGEST. Raises BadOption."""
    clean = " ".join(name.split())[:LONGEST].strip()
    if not clean:
        raise BadOption("A collection needs a name: type one.")
    if _is_taken(connection, clean, besides):
        raise BadOption(f"There is a collection {clean!r} already: choose another name.")
    if clean.startswith(ATTACHED):
        raise BadOption(f"Names that begin with “{ATTACHED.strip()}” belong to chats: choose another name.")
    return clean


def _is_taken(connection: sqlite3.Connection, name: str, besides: int = 0) -> bool:
    rows = connection.execute("SELECT name FROM collection WHERE id <> ? AND NOT is_leaving", (besides,))
    return name_key(name) in {name_key(row["name"]) for row in rows}


# Documents


def documents(connection: sqlite3.Connection, collection: int) -> tuple[Document, ...]:
    """Returns the documents of a collection that are not hidden, oldest first. Raises DocumentNotFound."""
    require_collection(connection, collection)
    return documents_of(connection, collection)


def documents_of(connection: sqlite3.Connection, collection: int) -> tuple[Document, ...]:
    """Returns the same documents as `documents`, without checking that the collection exists."""
    rows = connection.execute(
        f"{SELECT_DOCUMENT} WHERE collection = ? AND state NOT IN {HIDDEN} ORDER BY id", (collection,)
    )
    return tuple(Document(*row) for row in rows)


def document(connection: sqlite3.Connection, wanted: int) -> Document:
    """Returns the document of this id. Raises DocumentNotFound if it is unknown or hidden."""
    row = connection.execute(
        f"{SELECT_DOCUMENT} WHERE id = ? AND state NOT IN {HIDDEN}", (wanted,)
    ).fetchone()
    if row is None:
        raise DocumentNotFound("This document is no longer there: choose another one from the list.")
    return Document(*row)


def replaced_since(connection: sqlite3.Connection, moment: float) -> tuple[Document, ...]:
    """Returns the documents whose text was replaced since this moment, in the order of the replacements."""
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
    """Adds a document without a text, in state "waiting". Returns its id."""
    added = connection.execute(
        "INSERT INTO document (collection, title, source, origin, state, added)"
        " VALUES (?, ?, ?, ?, 'waiting', ?)",
        (collection, title, source, origin, now),
    )
    return int(added.lastrowid or 0)


def same_text(connection: sqlite3.Connection, collection: int, digest: bytes, besides: int = 0) -> int:
    """Returns a collection's oldest document, except `besides`, whose text has this digest; 0 if there is none."""
    return _first(connection, "collection = ? AND digest = ? AND id <> ?", (collection, digest, besides))


def stored_texts(connection: sqlite3.Connection, collection: int, besides: int = 0) -> list[StoredText]:
    """Returns the documents with a complete text, except `besides` and hidden documents; oldest first."""
    rows = connection.execute(
        f"{SELECT_TEXT} WHERE collection = ? AND digest IS NOT NULL AND id <> ? AND state NOT IN {HIDDEN}"
        " ORDER BY id",
        (collection, besides),
    )
    return [StoredText(*row) for row in rows]


def stored_text(connection: sqlite3.Connection, wanted: int) -> StoredText:
    """Returns the StoredText of this document, which may be hidden, and whose text may be incomplete."""
    return StoredText(*connection.execute(f"{SELECT_TEXT} WHERE id = ?", (wanted,)).fetchone())


def newest_version(connection: sqlite3.Connection, wanted: int) -> StoredText:
    """Returns the version that this document replaced last. Raises DocumentNotFound if none is kept."""
    row = connection.execute(
        f"{SELECT_TEXT} WHERE replaced_by = ? AND state = '{REPLACED}' ORDER BY id DESC LIMIT 1", (wanted,)
    ).fetchone()
    if row is None:
        raise DocumentNotFound("No older version of this document is kept.")
    return StoredText(*row)


def add_version(connection: sqlite3.Connection, wanted: int, now: float) -> int:
    """Adds a hidden document to which the text of this document can be moved. Returns its id.

    The newest KEPT_VERSIONS older versions of this document are kept; all others are marked for deletion."""
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


def update(connection: sqlite3.Connection, wanted: int, **columns: object) -> None:
    changes = ", ".join(f"{name} = ?" for name in columns)
    connection.execute(f"UPDATE document SET {changes} WHERE id = ?", (*columns.values(), wanted))


def hide(connection: sqlite3.Connection, wanted: int) -> None:
    """Hides a document with its older versions, until it is restored or erased."""
    connection.execute(
        f"UPDATE document SET state = '{REMOVED}' || state WHERE id = ? AND state NOT IN {HIDDEN}", (wanted,)
    )


def show(connection: sqlite3.Connection, wanted: int) -> None:
    """Restores a hidden document in its previous state. Raises DocumentNotFound if it was erased."""
    connection.execute(
        f"UPDATE document SET state = substr(state, {len(REMOVED) + 1})"
        f" WHERE id = ? AND state LIKE '{REMOVED}%'",
        (wanted,),
    )
    document(connection, wanted)


def claim(connection: sqlite3.Connection) -> bool:
    """Marks removed documents, with their older versions, and hidden collections for deletion.

    Deletes the marked collections that are empty. Returns whether anything was marked."""
    marked = connection.execute(
        f"UPDATE document SET state = '{LEAVING}', done = 0, total = 0 WHERE state LIKE '{REMOVED}%'"
        f" OR replaced_by IN (SELECT id FROM document WHERE state LIKE '{REMOVED}%')"
    )
    left = connection.execute("UPDATE collection SET is_leaving = 1 WHERE is_leaving = 2")
    delete_empty_collections(connection)
    return bool(marked.rowcount or left.rowcount)


def set_text(connection: sqlite3.Connection, wanted: int, digest: bytes, characters: int, note: str) -> None:
    """Marks a document's text as complete, and the document as waiting for indexing."""
    connection.execute(
        "UPDATE document SET digest = ?, characters = ?, note = ?, state = 'waiting', done = 0, total = 0"
        " WHERE id = ?",
        (digest, characters, note, wanted),
    )


def set_state(connection: sqlite3.Connection, wanted: int, state: str, note: str = "") -> None:
    """Sets the document's state and resets its progress to 0; an empty note keeps the previous note."""
    connection.execute(
        "UPDATE document SET state = ?, note = iif(? = '', note, ?), done = 0, total = 0 WHERE id = ?",
        (state, note, note, wanted),
    )


def version(connection: sqlite3.Connection, wanted: int) -> DocumentVersion:
    """Returns a document's state and digest; state "" and None if the document is deleted."""
    row = connection.execute("SELECT state, digest FROM document WHERE id = ?", (wanted,)).fetchone()
    return DocumentVersion(row["state"], row["digest"]) if row else DocumentVersion("", None)


def language(connection: sqlite3.Connection, wanted: int) -> str:
    """Returns the language of a document's indexed stems; "" before it is indexed."""
    return str(connection.execute("SELECT language FROM document WHERE id = ?", (wanted,)).fetchone()[0])


def leaving(connection: sqlite3.Connection) -> list[int]:
    """Returns the documents in state LEAVING, whose rows are to be deleted."""
    return [row["id"] for row in connection.execute(f"SELECT id FROM document WHERE state = '{LEAVING}'")]


def next_busy(connection: sqlite3.Connection) -> int:
    """Returns the oldest document to import or index; 0 if there is none."""
    return _first(connection, f"state IN {UNFINISHED}", ())


def unread(connection: sqlite3.Connection) -> set[int]:
    """Returns the documents whose files are not imported yet."""
    rows = connection.execute(
        f"SELECT id FROM document WHERE digest IS NULL AND state NOT IN ('{LEAVING}', '{REPLACED}')"
    )
    return {row["id"] for row in rows}


def last(connection: sqlite3.Connection) -> int:
    """Returns the highest id that a document has ever had; 0 before the first document."""
    row = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'document'").fetchone()
    return int(row["seq"]) if row else 0


def delete(connection: sqlite3.Connection, wanted: int) -> None:
    """Deletes a document's row and, with it, its text, passages, indexed words and vectors."""
    connection.execute("DELETE FROM document WHERE id = ?", (wanted,))


def _first(connection: sqlite3.Connection, condition: str, values: tuple[object, ...]) -> int:
    row = connection.execute(
        f"SELECT id FROM document WHERE {condition} AND state NOT IN {HIDDEN} ORDER BY id LIMIT 1", values
    ).fetchone()
    return int(row["id"]) if row else 0
