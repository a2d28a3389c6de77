"""The tables of passages and of their index of words, and the current position of a citation.

A citation of a passage has the id of the passage's row. If the text changes, the row's start and end are updated,
so the citation still finds the passage. A citation of a whole document is valid only while the document's text
stays the same."""

import hashlib
import sqlite3
from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from app.database.transactions import merge_index
from app.documents import document_table, text_table
from app.documents.chunking import Chunk
from app.documents.search.terms import indexed
from app.errors import DocumentNotFound
from app.values.document import Citation, Document, Passage

SELECT_PASSAGE = """
    SELECT passage.id, passage.document, document.title, passage.start, passage.end, passage.heading,
        document.language
    FROM passage JOIN document ON document.id = passage.document
"""
DIGEST_BYTES = 16
MERGED_PAGES = 100
"""Approximate number of pages of the FTS5 index that are merged in one transaction."""
CHANGED = "This passage no longer exists: its document has changed since."


@dataclass(frozen=True, slots=True)
class PassagePlace:
    """The id of a stored passage, and its position in the document's text."""

    id: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class NewPassage:
    """A passage to store, with its digest and the words to index."""

    chunk: Chunk
    digest: bytes
    indexed: str


StoredPassages = dict[bytes, deque[PassagePlace]]
"""Stored passages by digest. Equal passages of a text are listed in the order of the text."""


def new_passage(title: str, language: str, chunk: Chunk) -> NewPassage:
    digest = hashlib.blake2b(f"{chunk.heading}\0{chunk.text}".encode(), digest_size=DIGEST_BYTES).digest()
    return NewPassage(
        chunk, digest, indexed("\n".join(filter(None, (title, chunk.heading, chunk.text))), language)
    )


def stored_passages(connection: sqlite3.Connection, document: int) -> StoredPassages:
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
    """Stores passages. A passage that is stored already keeps its row, and is removed from `before`."""
    for one in batch:
        if places := before.get(one.digest):
            place, chunk = places.popleft(), one.chunk
            if (place.start, place.end) != (chunk.start, chunk.end):
                connection.execute(
                    "UPDATE passage SET start = ?, end = ? WHERE id = ?", (chunk.start, chunk.end, place.id)
                )
            _index(connection, place.id, one)
            continue
        added = connection.execute(
            "INSERT INTO passage (document, start, end, heading, digest) VALUES (?, ?, ?, ?, ?)",
            (document, one.chunk.start, one.chunk.end, one.chunk.heading, one.digest),
        )
        _index(connection, int(added.lastrowid or 0), one)


def _index(connection: sqlite3.Connection, passage: int, one: NewPassage) -> None:
    """Adds a passage's words to the index unless it has them. After a migration or a rescue the index is empty."""
    connection.execute(
        "INSERT INTO passage_words (rowid, text) SELECT ?, ?"
        " WHERE NOT EXISTS (SELECT 1 FROM passage_words WHERE rowid = ?)",
        (passage, one.indexed, passage),
    )


def drop(connection: sqlite3.Connection, ids: Iterable[int]) -> None:
    """Deletes passages with their words and vectors."""
    connection.executemany("DELETE FROM passage WHERE id = ?", ((one,) for one in ids))


def merge_words(connection: sqlite3.Connection, is_first: bool) -> bool:
    """Merges about MERGED_PAGES pages of the index of words. Returns whether there is more to do."""
    return merge_index(connection, "passage_words", MERGED_PAGES, is_first)


def some_ids(connection: sqlite3.Connection, document: int, most: int) -> list[int]:
    rows = connection.execute("SELECT id FROM passage WHERE document = ? LIMIT ?", (document, most))
    return [row["id"] for row in rows]


def passages(connection: sqlite3.Connection, document: int) -> tuple[Passage, ...]:
    """Returns a document's passages in order; () before it is ready. Raises DocumentNotFound."""
    if document_table.document(connection, document).state != "ready":
        return ()
    text = text_table.whole(connection, document)
    rows = connection.execute(
        f"{SELECT_PASSAGE} WHERE document = ? ORDER BY start, passage.id", (document,)
    ).fetchall()
    return tuple(_passage(row, text[row["start"] : row["end"]]) for row in rows)


def passage(connection: sqlite3.Connection, wanted: int) -> Passage:
    found = passages_of(connection, [wanted])
    if not found:
        raise DocumentNotFound(CHANGED)
    return found[0]


def passages_of(connection: sqlite3.Connection, ids: Sequence[int]) -> tuple[Passage, ...]:
    """Returns the passages of these ids in the same order; deleted passages are left out."""
    found = (connection.execute(f"{SELECT_PASSAGE} WHERE passage.id = ?", (one,)).fetchone() for one in ids)
    return tuple(
        _passage(row, text_table.between(connection, row["document"], row["start"], row["end"]))
        for row in found
        if row
    )


def _passage(row: sqlite3.Row, text: str) -> Passage:
    place = row["title"], row["start"], row["end"]
    return Passage(row["id"], row["document"], *place, text, row["heading"], row["language"])


def cited_words(connection: sqlite3.Connection, cited: Citation) -> str:
    """Returns the cited words.

    Raises DocumentNotFound if they were deleted or changed, or if they are in a passage of a document that is not
    ready."""
    about = document_table.document(connection, cited.document)
    start, end = _place(connection, about, cited) if cited.passage else (cited.start, cited.end)
    digest = document_table.version(connection, about.id).digest
    is_changed = cited.stamp and cited.stamp != (text_table.stamp_of(digest) if digest else "")
    found = "" if is_changed else text_table.between(connection, about.id, start, end)
    if not found:
        raise DocumentNotFound(CHANGED)
    return found


def _place(connection: sqlite3.Connection, about: Document, cited: Citation) -> tuple[int, int]:
    """Returns the start and end of the cited part in the text; an empty range if the passage was deleted.

    Raises DocumentNotFound unless the document is ready, because until then passages may belong to an older
    text."""
    if about.state in ("failed", "cancelled"):
        raise DocumentNotFound(f"{about.title} was not indexed: try it again in the list of documents.")
    if about.state != "ready":
        raise DocumentNotFound(f"{about.title} is being indexed: look again when it is ready.")
    row = connection.execute("SELECT start, end FROM passage WHERE id = ?", (cited.passage,)).fetchone()
    begin, stop = (row["start"], row["end"]) if row else (0, 0)
    start = begin + cited.within
    return start, min(stop, start + cited.end - cited.start)
