"""The tables of passages and of their words. The words of a passage lie in its document's text alone."""

import hashlib
import sqlite3
from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from app.document_messages import Passage
from app.documents import texts
from app.documents.chunking import Chunk
from app.documents.search.words import indexed

ROWS = """
    SELECT passage.id, passage.document, document.title, passage.start, passage.end, passage.heading
    FROM passage JOIN document ON document.id = passage.document
"""
DIGEST_BYTES = 16
MERGED_PAGES = 100
"""Pages of the index of words that are written in one transaction."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a passage that is stored lies in its text."""

    id: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Prepared:
    """A passage as it will be stored: made before the database is held."""

    chunk: Chunk
    digest: bytes
    words: str


Known = dict[bytes, deque[Place]]
"""Stored passages by their digest, in the order of their places: the same words may be there twice."""


def prepared(title: str, chunk: Chunk) -> Prepared:
    """What is stored of a passage."""
    digest = hashlib.blake2b(f"{chunk.heading}\0{chunk.text}".encode(), digest_size=DIGEST_BYTES).digest()
    return Prepared(chunk, digest, indexed("\n".join(filter(None, (title, chunk.heading, chunk.text)))))


def known(connection: sqlite3.Connection, document: int) -> Known:
    """What is stored of a document."""
    found: Known = defaultdict(deque)
    rows = connection.execute(
        "SELECT digest, id, start, end FROM passage WHERE document = ? ORDER BY start, id", (document,)
    )
    for row in rows:
        found[row["digest"]].append(Place(row["id"], row["start"], row["end"]))
    return found


def put(connection: sqlite3.Connection, document: int, batch: Iterable[Prepared], before: Known) -> None:
    """Store passages; one that was there before keeps its row, and leaves `before`."""
    for one in batch:
        places = before.get(one.digest)
        if places:
            _move(connection, places.popleft(), one.chunk)
        else:
            _add(connection, document, one)


def drop(connection: sqlite3.Connection, ids: Iterable[int]) -> None:
    """Delete passages with their words and vectors."""
    connection.executemany("DELETE FROM passage WHERE id = ?", ((one,) for one in ids))


def merge_words(connection: sqlite3.Connection, is_first: bool) -> bool:
    """Write some of the index of words anew without what was deleted; whether there is more to do."""
    before = connection.total_changes
    # FTS5's way to merge all there is a few pages at a time: a negative number begins, positive ones go on.
    pages = -MERGED_PAGES if is_first else MERGED_PAGES
    connection.execute("INSERT INTO passage_words (passage_words, rank) VALUES ('merge', ?)", (pages,))
    return connection.total_changes - before >= 2


def some(connection: sqlite3.Connection, document: int, most: int) -> list[int]:
    """The ids of some of a document's passages."""
    rows = connection.execute("SELECT id FROM passage WHERE document = ? LIMIT ?", (document, most))
    return [row["id"] for row in rows]


def count(connection: sqlite3.Connection, document: int) -> int:
    """How many passages a document has."""
    row = connection.execute("SELECT count(*) FROM passage WHERE document = ?", (document,)).fetchone()
    return int(row[0])


def place(connection: sqlite3.Connection, passage: int) -> tuple[int, int]:
    """Where a passage is now; nowhere (0, 0) when it is gone."""
    row = connection.execute("SELECT start, end FROM passage WHERE id = ?", (passage,)).fetchone()
    return (row["start"], row["end"]) if row else (0, 0)


def passages(connection: sqlite3.Connection, document: int) -> tuple[Passage, ...]:
    """A document's passages in the order of its text."""
    text = texts.whole(connection, document)
    rows = connection.execute(f"{ROWS} WHERE document = ? ORDER BY start, passage.id", (document,)).fetchall()
    return tuple(_passage(row, text[row["start"] : row["end"]]) for row in rows)


def passages_of(connection: sqlite3.Connection, ids: Sequence[int]) -> tuple[Passage, ...]:
    """These passages, in this order; those that are gone are left out."""
    found = (connection.execute(f"{ROWS} WHERE passage.id = ?", (one,)).fetchone() for one in ids)
    return tuple(
        _passage(row, texts.between(connection, row["document"], row["start"], row["end"]))
        for row in found
        if row
    )


def _passage(row: sqlite3.Row, text: str) -> Passage:
    return Passage(
        row["id"], row["document"], row["title"], row["start"], row["end"], text, heading=row["heading"]
    )


def _move(connection: sqlite3.Connection, place: Place, chunk: Chunk) -> None:
    if (place.start, place.end) != (chunk.start, chunk.end):
        connection.execute(
            "UPDATE passage SET start = ?, end = ? WHERE id = ?", (chunk.start, chunk.end, place.id)
        )


def _add(connection: sqlite3.Connection, document: int, one: Prepared) -> None:
    added = connection.execute(
        "INSERT INTO passage (document, start, end, heading, digest) VALUES (?, ?, ?, ?, ?)",
        (document, one.chunk.start, one.chunk.end, one.chunk.heading, one.digest),
    )
    connection.execute("INSERT INTO passage_words (rowid, text) VALUES (?, ?)", (added.lastrowid, one.words))
