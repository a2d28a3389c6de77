"""The table of texts, each kept in parts of PART characters: where a character lies is a division.

characters 65,530 to 65,540  ->  the end of part 0 and the beginning of part 1
"""

import hashlib
import sqlite3
from collections.abc import Iterable, Iterator

from app.database import Database

PART = 65_536
"""Characters (code points) of a part; changing it would misplace what is stored."""


def parts_of(text: str) -> Iterator[str]:
    """A text as it is stored."""
    return (text[at : at + PART] for at in range(0, len(text), PART))


def digest_of(parts: Iterable[str]) -> bytes:
    """What tells a text from any other."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part.encode())
    return digest.digest()


def stamp_of(digest: bytes) -> str:
    """A digest short enough to be kept with each citation of a text."""
    return digest.hex()[:16]


def append(connection: sqlite3.Connection, document: int, first: int, parts: Iterable[str]) -> None:
    """Write parts, `first` being the number of the first one; all but a text's last are whole."""
    connection.executemany(
        "INSERT INTO document_text (document, part, text) VALUES (?, ?, ?)",
        ((document, number, text) for number, text in enumerate(parts, first)),
    )


def clear(connection: sqlite3.Connection, document: int, most: int = -1) -> int:
    """Delete a document's text, or some parts of it; how many."""
    gone = connection.execute(
        "DELETE FROM document_text WHERE rowid IN (SELECT rowid FROM document_text WHERE document = ? LIMIT ?)",
        (document, most),
    )
    return gone.rowcount


def give(connection: sqlite3.Connection, giver: int, taker: int) -> None:
    """Let a document take another one's text in place of its own."""
    clear(connection, taker)
    connection.execute("UPDATE document_text SET document = ? WHERE document = ?", (taker, giver))


def between(connection: sqlite3.Connection, document: int, start: int, end: int) -> str:
    """The characters from `start` to `end`; what lies behind the text's end is left out."""
    first = start // PART
    found = connection.execute(
        "SELECT text FROM document_text WHERE document = ? AND part BETWEEN ? AND ? ORDER BY part",
        (document, first, max(first, (end - 1) // PART)),
    )
    return "".join(row[0] for row in found)[start - first * PART : end - first * PART]


def whole(connection: sqlite3.Connection, document: int) -> str:
    """All of a text."""
    return "".join(parts(connection, document))


def parts(connection: sqlite3.Connection, document: int) -> Iterator[str]:
    """A text part by part, all in one transaction."""
    found = connection.execute("SELECT text FROM document_text WHERE document = ? ORDER BY part", (document,))
    return (str(row[0]) for row in found)


def each_part(database: Database, document: int) -> Iterator[str]:
    """A text part by part, each read by itself: others use the database in between."""
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
