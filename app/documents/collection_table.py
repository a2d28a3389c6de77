"""The table of collections: documents that are searched together."""

import sqlite3
from itertools import count

from app.documents.document_table import HIDDEN
from app.errors import BadOption, DocumentNotFound
from app.values.document import ATTACHED, Collection
from app.values.text_normalisation import name_key

LISTED = f"""
    SELECT collection.id, collection.name, count(document.id) AS documents,
        coalesce(sum(iif(document.state = 'ready', document.characters, 0)), 0) AS characters,
        coalesce(sum(iif(document.state = 'ready', document.passages, 0)), 0) AS passages
    FROM collection LEFT JOIN document
        ON document.collection = collection.id AND document.state NOT IN {HIDDEN}
    WHERE NOT collection.is_leaving
    GROUP BY collection.id ORDER BY collection.name COLLATE NOCASE, collection.id
"""
LONGEST = 100
"""Characters of a name."""


def collections(connection: sqlite3.Connection) -> tuple[Collection, ...]:
    """All collections, by name."""
    return tuple(Collection(*row) for row in connection.execute(LISTED))


def create(connection: sqlite3.Connection, name: str, now: float) -> int:
    """Add an empty collection. Raises BadOption for no name, or one that is taken."""
    return _insert(connection, _own_name(_free_name(connection, name)), now)


def create_attached(connection: sqlite3.Connection, title: str, now: float) -> int:
    """Add an empty collection for a chat, named after its first document; a number keeps the name apart."""
    for number in count(1):
        end = f" ({number})" if number > 1 else ""
        name = f"{ATTACHED}{title[: LONGEST - len(ATTACHED) - len(end)]}{end}"
        if not _is_taken(connection, name):
            break
    return _insert(connection, name, now)


def _insert(connection: sqlite3.Connection, name: str, now: float) -> int:
    added = connection.execute("INSERT INTO collection (name, created) VALUES (?, ?)", (name, now))
    return int(added.lastrowid or 0)


def rename(connection: sqlite3.Connection, collection: int, name: str) -> None:
    """Rename a collection. One that belongs to a chat becomes one of its own."""
    require_collection(connection, collection)
    free = _own_name(_free_name(connection, name, besides=collection))
    connection.execute("UPDATE collection SET name = ? WHERE id = ?", (free, collection))


def hide(connection: sqlite3.Connection, collection: int) -> None:
    """Hide a collection. It is deleted when its documents are."""
    require_collection(connection, collection)
    connection.execute("UPDATE collection SET is_leaving = 1 WHERE id = ?", (collection,))


def delete_empty(connection: sqlite3.Connection) -> None:
    """Delete hidden collections without documents."""
    connection.execute(
        "DELETE FROM collection WHERE is_leaving AND id NOT IN (SELECT collection FROM document)"
    )


def require_collection(connection: sqlite3.Connection, collection: int) -> None:
    """Raise DocumentNotFound for a collection that is not there."""
    found = connection.execute(
        "SELECT 1 FROM collection WHERE id = ? AND NOT is_leaving", (collection,)
    ).fetchone()
    if not found:
        raise DocumentNotFound("This collection is no longer there: choose another one from the list.")


def _free_name(connection: sqlite3.Connection, name: str, besides: int = 0) -> str:
    clean = " ".join(name.split())[:LONGEST].strip()
    if not clean:
        raise BadOption("A collection needs a name: type one.")
    if _is_taken(connection, clean, besides):
        raise BadOption(f"There is a collection {clean!r} already: choose another name.")
    return clean


def _is_taken(connection: sqlite3.Connection, name: str, besides: int = 0) -> bool:
    rows = connection.execute("SELECT name FROM collection WHERE id <> ? AND NOT is_leaving", (besides,))
    return name_key(name) in {name_key(row["name"]) for row in rows}


def _own_name(name: str) -> str:
    """A name that does not tell that the collection belongs to a chat. Raises BadOption."""
    if name.startswith(ATTACHED):
        raise BadOption(f"Names that begin with “{ATTACHED.strip()}” belong to chats: choose another name.")
    return name
