"""The tables of passages and of the words they are found by, and the current place of a citation.

The text of a passage is stored in its document alone. A citation of a passage follows the passage's row. A citation
of a whole document is valid only while the document's text is the same, to the letter.
"""

import hashlib
import sqlite3
from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from app.documents import document_table, passage_table, text_table
from app.documents.chunking import Chunk
from app.documents.search.terms import indexed
from app.errors import DocumentNotFound
from app.values.document import Citation, Document, Passage

SELECT_PASSAGE = """
    SELECT passage.id, passage.document, document.title, passage.start, passage.end, passage.heading
    FROM passage JOIN document ON document.id = passage.document
"""
DIGEST_BYTES = 16
MERGED_PAGES = 100
"""Pages of the FTS5 index that are written in one transaction."""
CHANGED = "This passage no longer exists: its document has changed since."


@dataclass(frozen=True, slots=True)
class PassagePlace:
    """The place of a stored passage in its text."""

    id: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class NewPassage:
    """A passage as it will be stored. It is made before the transaction begins."""

    chunk: Chunk
    digest: bytes
    indexed: str


StoredPassages = dict[bytes, deque[PassagePlace]]
"""Stored passages by their digest, in the order of their places: the same text may be there twice."""


def new_passage(title: str, chunk: Chunk) -> NewPassage:
    """A chunk of a document with this title as a passage to store."""
    digest = hashlib.blake2b(f"{chunk.heading}\0{chunk.text}".encode(), digest_size=DIGEST_BYTES).digest()
    return NewPassage(chunk, digest, indexed("\n".join(filter(None, (title, chunk.heading, chunk.text)))))


def stored_passages(connection: sqlite3.Connection, document: int) -> StoredPassages:
    """The stored passages of a document."""
    found: StoredPassages = defaultdict(deque)
    rows = connection.execute(
        "SELECT digest, id, start, end FROM passage WHERE document = ? ORDER BY start, id", (document,)
    )
    for row in rows:
        found[row["digest"]].append(PassagePlace(row["id"], row["start"], row["end"]))
    return found


def put(
    connection: sqlite3.Connection, document: int, batch: Iterable[NewPassage], before: StoredPassages
) -> None:
    """Store passages. One that is stored already keeps its row, and is removed from `before`."""
    for one in batch:
        places = before.get(one.digest)
        if places:
            _move(connection, places.popleft(), one.chunk)
        else:
            _add(connection, document, one)


def keep(connection: sqlite3.Connection, place: PassagePlace, one: NewPassage) -> None:
    """Put a stored passage in its place, and index its words, which are missing."""
    _move(connection, place, one.chunk)
    connection.execute("INSERT INTO passage_words (rowid, text) VALUES (?, ?)", (place.id, one.indexed))


def drop(connection: sqlite3.Connection, ids: Iterable[int]) -> None:
    """Delete passages with their words and vectors."""
    connection.executemany("DELETE FROM passage WHERE id = ?", ((one,) for one in ids))


def merge_words(connection: sqlite3.Connection, is_first: bool) -> bool:
    """Merge some pages of the FTS5 index, which removes deleted words; returns whether there is more to do."""
    before = connection.total_changes
    # FTS5's way to merge all there is a few pages at a time: a negative number begins, positive ones go on.
    pages = -MERGED_PAGES if is_first else MERGED_PAGES
    connection.execute("INSERT INTO passage_words (passage_words, rank) VALUES ('merge', ?)", (pages,))
    return connection.total_changes - before >= 2


def some_ids(connection: sqlite3.Connection, document: int, most: int) -> list[int]:
    """The ids of some of a document's passages."""
    rows = connection.execute("SELECT id FROM passage WHERE document = ? LIMIT ?", (document, most))
    return [row["id"] for row in rows]


def count(connection: sqlite3.Connection, document: int) -> int:
    """How many passages a document has."""
    row = connection.execute("SELECT count(*) FROM passage WHERE document = ?", (document,)).fetchone()
    return int(row[0])


def place(connection: sqlite3.Connection, passage: int) -> tuple[int, int]:
    """The place of a passage; (0, 0) when it is deleted."""
    row = connection.execute("SELECT start, end FROM passage WHERE id = ?", (passage,)).fetchone()
    return (row["start"], row["end"]) if row else (0, 0)


def passages(connection: sqlite3.Connection, document: int) -> tuple[Passage, ...]:
    """A document's passages in the order of its text."""
    text = text_table.whole(connection, document)
    rows = connection.execute(
        f"{SELECT_PASSAGE} WHERE document = ? ORDER BY start, passage.id", (document,)
    ).fetchall()
    return tuple(_passage(row, text[row["start"] : row["end"]]) for row in rows)


def passages_of(connection: sqlite3.Connection, ids: Sequence[int]) -> tuple[Passage, ...]:
    """These passages, in this order; deleted ones are left out."""
    found = (connection.execute(f"{SELECT_PASSAGE} WHERE passage.id = ?", (one,)).fetchone() for one in ids)
    return tuple(
        _passage(row, text_table.between(connection, row["document"], row["start"], row["end"]))
        for row in found
        if row
    )


def _passage(row: sqlite3.Row, text: str) -> Passage:
    return Passage(
        row["id"], row["document"], row["title"], row["start"], row["end"], text, heading=row["heading"]
    )


def _move(connection: sqlite3.Connection, place: PassagePlace, chunk: Chunk) -> None:
    if (place.start, place.end) != (chunk.start, chunk.end):
        connection.execute(
            "UPDATE passage SET start = ?, end = ? WHERE id = ?", (chunk.start, chunk.end, place.id)
        )


def _add(connection: sqlite3.Connection, document: int, one: NewPassage) -> None:
    added = connection.execute(
        "INSERT INTO passage (document, start, end, heading, digest) VALUES (?, ?, ?, ?, ?)",
        (document, one.chunk.start, one.chunk.end, one.chunk.heading, one.digest),
    )
    connection.execute(
        "INSERT INTO passage_words (rowid, text) VALUES (?, ?)", (added.lastrowid, one.indexed)
    )


def cited_words(connection: sqlite3.Connection, cited: Citation) -> str:
    """The cited words. Raises DocumentNotFound when they are deleted, or while the document is being indexed."""
    about = document_table.document(connection, cited.document)
    start, end = _place(connection, about, cited) if cited.passage else (cited.start, cited.end)
    if cited.stamp and cited.stamp != _stamp(connection, about.id):
        raise DocumentNotFound(CHANGED)
    found = text_table.between(connection, about.id, start, end)
    if not found:
        raise DocumentNotFound(CHANGED)
    return found


def _place(connection: sqlite3.Connection, about: Document, cited: Citation) -> tuple[int, int]:
    """The place of the cited part of a passage. Passages belong to an older text while a newer one is indexed."""
    if about.state in ("failed", "cancelled"):
        raise DocumentNotFound(f"{about.title} was not indexed: try it again in the list of documents.")
    if about.state != "ready":
        raise DocumentNotFound(f"{about.title} is being indexed: look again when it is ready.")
    begin, stop = passage_table.place(connection, cited.passage)
    start = begin + cited.within
    return start, min(stop, start + cited.end - cited.start)


def _stamp(connection: sqlite3.Connection, document: int) -> str:
    version = document_table.version(connection, document)
    return text_table.stamp_of(version.digest) if version and version.digest else ""
