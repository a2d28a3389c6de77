"""The table of texts. A text is stored in parts of PART characters. A position is in the part position // PART."""

import hashlib
import sqlite3
from collections.abc import Iterable, Iterator

from app.database.database import Database

PART = 65_536
"""Characters (code points) of a part. With another number, stored texts would be read at wrong positions."""


def parts_of(text: str) -> Iterator[str]:
    """Yields the parts of a text, which have PART characters, except the last."""
    return (text[at : at + PART] for at in range(0, len(text), PART))


def digest_of(parts: Iterable[str]) -> bytes:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part.encode())
    return digest.digest()


def stamp_of(digest: bytes) -> str:
    """Shortens a digest to the stamp that is stored with each citation of a whole text."""
    return digest.hex()[:16]


def append(connection: sqlite3.Connection, document: int, first: int, parts: Iterable[str]) -> None:
    """Stores parts of a text, numbered from `first`. All but the last part of a text must have PART characters."""
    connection.executemany(
        "INSERT INTO document_text (document, part, text) VALUES (?, ?, ?)",
        ((document, number, text) for number, text in enumerate(parts, first)),
    )


def clear(connection: sqlite3.Connection, document: int, most: int = -1) -> int:
    """Deletes a document's text, or at most `most` parts of it. Returns the number of deleted parts."""
    deleted = connection.execute(
        "DELETE FROM document_text WHERE rowid IN (SELECT rowid FROM document_text WHERE document = ? LIMIT ?)",
        (document, most),
    )
    return deleted.rowcount


def move(connection: sqlite3.Connection, source: int, target: int) -> None:
    """Moves a document's text to the document `target`, whose own text is deleted."""
    clear(connection, target)
    connection.execute("UPDATE document_text SET document = ? WHERE document = ?", (target, source))


def between(connection: sqlite3.Connection, document: int, start: int, end: int) -> str:
    """Reads the characters from `start` to `end`, clipped to the text's end."""
    first = start // PART
    found = connection.execute(
        "SELECT text FROM document_text WHERE document = ? AND part BETWEEN ? AND ? ORDER BY part",
        (document, first, max(first, (end - 1) // PART)),
    )
    return "".join(row[0] for row in found)[start - first * PART : end - first * PART]


def whole(connection: sqlite3.Connection, document: int) -> str:
    return "".join(parts(connection, document))


def parts(connection: sqlite3.Connection, document: int) -> Iterator[str]:
    """Yields the parts of a document's text, which must be read before the transaction ends."""
    found = connection.execute("SELECT text FROM document_text WHERE document = ? ORDER BY part", (document,))
    return (str(row[0]) for row in found)


def each_part(database: Database, document: int) -> Iterator[str]:
    """Yields the parts of a document's text, each in its own transaction, so that other threads need not wait."""
    number = 0
    while True:
        with database.reading() as connection:
            row = connection.execute(
                "SELECT text FROM document_text WHERE document = ? AND part = ?", (document, number)
            ).fetchone()
        if row is None:
            return
        yield row["text"]
        number += 1
