"""What becomes of a text that comes into a collection: it is new, or there already, or a newer form of one.

the same text            the document that is there stays, and its note says that it came again
other words, same title  (pasted) the document takes the new text; passages that have not changed keep their rows
other words, same file   likewise
"""

import hashlib
import sqlite3
from collections.abc import Iterable

from app.documents import passage_rows, records, texts

PASTED = "pasted"


def digest_of(parts: Iterable[str]) -> bytes:
    """What tells a text from any other."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part.encode())
    return digest.digest()


def paste(
    connection: sqlite3.Connection, collection: int, text: str, title: str, note: str, now: float
) -> int:
    """Put in a text that somebody pasted; its document."""
    digest = digest_of(texts.parts_of(text))
    if there := records.same_text(connection, collection, digest):
        records.set_note(connection, there, "The same text was pasted again; it is kept once.")
        return there
    there = records.same_title(connection, collection, title)
    document = there or records.add(connection, collection, title, PASTED, now)
    texts.clear(connection, document)
    texts.append(connection, document, 0, texts.parts_of(text))
    records.set_text(connection, document, digest, len(text), note)
    return document


def settle(connection: sqlite3.Connection, document: int, digest: bytes, characters: int, note: str) -> int:
    """Say that a file's text is stored whole; the document that has it now."""
    about = records.document(connection, document)
    if there := records.same_text(connection, about.collection, digest, besides=document):
        records.set_note(connection, there, f"{about.source} came again with the same text; it is kept once.")
        _leave(connection, document)
        return there
    origin = records.origin(connection, document)
    if there := records.same_origin(connection, about.collection, origin, besides=document):
        texts.give(connection, document, there)
        records.set_text(connection, there, digest, characters, note)
        _leave(connection, document)
        return there
    records.set_text(connection, document, digest, characters, note)
    return document


def _leave(connection: sqlite3.Connection, document: int) -> None:
    """Delete a document that has come to nothing: it has no passages yet, or few of an attempt before."""
    passage_rows.drop(connection, passage_rows.some(connection, document, -1))
    records.delete(connection, document)
