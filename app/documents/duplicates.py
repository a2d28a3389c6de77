"""Decides whether a text that is added to a collection is new, a duplicate, or a new version of a document.

same text                        duplicate: the stored document stays, with a note; it is retried if it failed
pasted, same title               new version: the document gets the new text; unchanged passages keep their rows
pasted, same guessed title       new version if the texts are alike (is_new_version), else a new text "… (2)"
same path                        new version
uploaded, same file name         new version if the texts are alike: only the name of an upload is known
"""

import sqlite3
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from itertools import count, islice

from app.document_messages import Document
from app.documents import document_table, passage_table, text_table
from app.documents.chunking import chunks

PASTED = "pasted"
REPLACED = "It replaced an older version of this text."
COMPARED_CHUNKS = 200
"""Chunks at the beginning of each text that are compared, so that long texts take no longer."""
MIN_SHARED = 0.5


@dataclass(frozen=True, slots=True)
class PastedText:
    """A pasted text, cleaned, with a note about the cleaning."""

    text: str
    title: str
    is_title_guessed: bool = False
    note: str = ""


def store_pasted_text(connection: sqlite3.Connection, collection: int, pasted: PastedText, now: float) -> int:
    """Store a pasted text; returns its document."""
    digest = text_table.digest_of(text_table.parts_of(pasted.text))
    if there := document_table.same_text(connection, collection, digest):
        _note_duplicate(connection, there, "The same text was pasted again. It is stored once.")
        return there
    taken = document_table.pasted_titles(connection, collection)
    older = _older_version(connection, pasted, taken)
    title = _free_title(pasted.title, taken.values())
    document = older or document_table.add(connection, collection, title, PASTED, now)
    text_table.clear(connection, document)
    text_table.append(connection, document, 0, text_table.parts_of(pasted.text))
    note = _joined(pasted.note, REPLACED) if older else pasted.note
    document_table.set_text(connection, document, digest, len(pasted.text), note)
    return document


def store_file_text(
    connection: sqlite3.Connection, document: int, digest: bytes, characters: int, note: str
) -> int:
    """Finish the import of a file whose text is stored; returns the document that has the text now."""
    about = document_table.document(connection, document)
    if there := document_table.same_text(connection, about.collection, digest, besides=document):
        _note_duplicate(
            connection, there, f"{about.source} was added again with the same text. It is stored once."
        )
        _delete(connection, document)
        return there
    if older := _same_file(connection, about):
        text_table.move(connection, document, older)
        document_table.set_text(connection, older, digest, characters, _joined(note, REPLACED))
        _delete(connection, document)
        return older
    document_table.set_text(connection, document, digest, characters, note)
    return document


def _note_duplicate(connection: sqlite3.Connection, document: int, note: str) -> None:
    """Note that a document's text was added again, and retry a document that failed or was cancelled."""
    about = document_table.document(connection, document)
    if about.state in ("failed", "cancelled"):
        document_table.set_state(connection, document, "waiting")
        document_table.set_note(connection, document, note)
    elif note not in about.note:
        document_table.set_note(connection, document, _joined(about.note, note))


def _older_version(connection: sqlite3.Connection, pasted: PastedText, taken: dict[int, str]) -> int:
    """The document that a pasted text is a new version of, among those with these titles; 0 for none.

    A typed title decides alone. For a guessed title the texts are compared, too."""
    if not pasted.is_title_guessed:
        return next((document for document, title in taken.items() if title == pasted.title), 0)
    titles = {pasted.title, *(_numbered(pasted.title, number) for number in range(2, len(taken) + 2))}
    for document in (document for document, title in taken.items() if title in titles):
        if is_new_version(text_table.parts_of(pasted.text), text_table.parts(connection, document), PASTED):
            return document
    return 0


def _same_file(connection: sqlite3.Connection, about: Document) -> int:
    """The document that was imported from the same file before; 0 for none."""
    if origin := document_table.origin(connection, about.id):
        return document_table.same_origin(connection, about.collection, origin, besides=about.id)
    for older in document_table.uploads(connection, about.collection, about.source, besides=about.id):
        text, before = (text_table.parts(connection, one) for one in (about.id, older))
        if is_new_version(text, before, about.source):
            return older
    return 0


def _free_title(title: str, taken: Collection[str]) -> str:
    """The title, with a number if it is taken."""
    if title not in taken:
        return title
    return next(free for number in count(2) if (free := _numbered(title, number)) not in taken)


def _numbered(title: str, number: int) -> str:
    return f"{title} ({number})"


def _joined(*notes: str) -> str:
    return " ".join(filter(None, notes))


def _delete(connection: sqlite3.Connection, document: int) -> None:
    """Delete a document whose text went to another one. It has few passages of an earlier attempt, or none."""
    passage_table.drop(connection, passage_table.some_ids(connection, document, -1))
    document_table.delete(connection, document)


def is_new_version(newer: Iterable[str], older: Iterable[str], source: str) -> bool:
    """Whether two texts, which come in parts, have so many chunks in common that one is a version of the other.

    The name alone does not tell: every folder has its notes.txt. A wrong yes loses a text, a wrong no keeps an old
    version, so half of the shorter text's chunks must be in the other one."""
    one, other = (
        {found.text for found in islice(chunks(parts, source), COMPARED_CHUNKS)} for parts in (newer, older)
    )
    return len(one & other) >= MIN_SHARED * min(len(one), len(other))
