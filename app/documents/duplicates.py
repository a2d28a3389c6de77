"""Decides whether a text that is added to a collection is new, a duplicate, or a new version of a document.

same text                             duplicate: the stored document stays, with a note; it is retried if it failed
most of an older text is in it, and   new version: the document gets the new text, and unchanged passages keep their
it has its title, file name or path   rows; the older text is kept as a hidden document, so that this can be undone
anything else                         a new document; if the title is taken it becomes "Title (2)"

A file is compared with documents from the same path, because many folders have a file of the same name; an upload
has no path, so it is compared with uploads of the same name. Texts are compared between transactions, because that
takes long.
"""

import re
import sqlite3
from collections import Counter
from dataclasses import dataclass

from app.database.database import Database
from app.documents import document_table, passage_table, text_table
from app.documents.document_table import StoredText
from app.values.display_text import numbered
from app.values.text_normalisation import name_key, spaced

PASTED = "pasted"
PASTED_AGAIN = "The same text was pasted again. It is stored once."
REPLACED = "It replaced an older version of this text, which is kept."
NOT_REPLACED = "Another document has this title but a different text, so both are kept."
COMPARED = 250_000
"""Characters at the beginning of each text that are compared."""
COMPARED_IN_ALL = 4_000_000
"""Maximum number of characters of older texts that a text is compared with, so that hundreds of texts with the same
title take no longer."""
MIN_SHARED = 0.6
"""The smallest share of an older text that a newer version contains. With less, both texts are kept."""
MOST_REPLACED = 4_000_000
"""Maximum number of characters of a text that replaces another, because moving a longer text takes too long."""
WORD = re.compile(r"\w+")

Trigrams = Counter[tuple[str, str, str]]


@dataclass(frozen=True, slots=True)
class AddedText:
    """A text that is being added. `beginning` has at most its first COMPARED characters."""

    collection: int
    title: str
    source: str
    beginning: str
    characters: int
    origin: str = ""
    document: int = 0


NO_TEXT = StoredText(0, "")


def older_version(database: Database, added: AddedText) -> StoredText:
    """Finds the document of which the added text is a new version; NO_TEXT if there is none."""
    with database.reading() as connection:
        known = document_table.stored_texts(connection, added.collection, besides=added.document)
    newer, compared = trigrams(added.beginning), 0
    for one in reversed(known):
        if compared > COMPARED_IN_ALL or added.characters > MOST_REPLACED:
            return NO_TEXT
        if _may_be_older(one, added):
            with database.reading() as connection:
                text = text_table.between(connection, one.document, 0, COMPARED)
            if is_new_version(newer, trigrams(text)):
                return one
            compared += len(text)
    return NO_TEXT


def store_pasted_text(
    connection: sqlite3.Connection, added: AddedText, text: str, note: str, older: StoredText, now: float
) -> int:
    """Stores a pasted text with a note. Returns its document. `older` is the result of `older_version`."""
    digest = text_table.digest_of(text_table.parts_of(text))
    if duplicate := document_table.same_text(connection, added.collection, digest):
        _note_duplicate(connection, duplicate, PASTED_AGAIN)
        return duplicate
    document, kept = older.document, REPLACED
    if _is_unchanged(connection, older):
        _keep_version(connection, document, now)
    else:
        title, kept = _free_title(connection, added.collection, added.title)
        document = document_table.add(connection, added.collection, title, PASTED, now)
    text_table.append(connection, document, 0, text_table.parts_of(text))
    document_table.set_text(connection, document, digest, len(text), _joined(note, kept))
    return document


def store_file_text(
    connection: sqlite3.Connection, document: int, new: StoredText, note: str, older: StoredText, now: float
) -> int:
    """Finishes the import of a file whose text is stored. Returns the document that now has the text.

    For a duplicate or a new version this is an older document, and the imported one is deleted."""
    about = document_table.document(connection, document)
    if duplicate := document_table.same_text(connection, about.collection, new.digest, besides=document):
        again = f"{about.source} was added again with the same text. It is stored once."
        _note_duplicate(connection, duplicate, PASTED_AGAIN if about.source == PASTED else again)
        _delete(connection, document)
        return duplicate
    if _is_unchanged(connection, older):
        _keep_version(connection, older.document, now)
        text_table.move(connection, document, older.document)
        document_table.set_text(
            connection, older.document, new.digest, new.characters, _joined(note, REPLACED)
        )
        _delete(connection, document)
        return older.document
    title, kept = _free_title(connection, about.collection, new.title, besides=document)
    known = document_table.stored_texts(connection, about.collection, document)
    if kept and about.source not in {one.source for one in known}:  # the file's name says more than a number
        title, kept = _free_title(connection, about.collection, about.title, besides=document)
    document_table.update(connection, document, title=title)
    document_table.set_text(connection, document, new.digest, new.characters, _joined(note, kept))
    return document


def undo_replacement(connection: sqlite3.Connection, document: int, now: float) -> int:
    """Gives a document its older text back. Returns a new document that has the newer text.

    Raises DocumentNotFound if no older version is kept."""
    about = document_table.document(connection, document)
    older = document_table.newest_version(connection, document)
    newer = document_table.stored_text(connection, document)
    title, _ = _free_title(connection, about.collection, about.title)
    other = document_table.add(connection, about.collection, title, about.source, now, newer.origin)
    text_table.move(connection, document, other)
    document_table.set_text(connection, other, newer.digest, newer.characters, "")
    text_table.move(connection, older.document, document)
    document_table.set_text(connection, document, older.digest, older.characters, "")
    _delete(connection, older.document)
    return other


def trigrams(text: str) -> Trigrams:
    """Counts each sequence of three words; the beginning and the end of the text count as empty words."""
    words = WORD.findall(spaced(text).casefold())
    padded = ["", "", *words, "", ""] if words else []
    return Counter(zip(padded, padded[1:], padded[2:], strict=False))


def is_new_version(newer: Trigrams, older: Trigrams) -> bool:
    """Returns whether the newer text contains at least MIN_SHARED of the older text."""
    return bool(older) and (older & newer).total() >= MIN_SHARED * older.total()


def _may_be_older(one: StoredText, added: AddedText) -> bool:
    """Returns whether a stored text has the title, path or file name of the added text."""
    if one.characters > MOST_REPLACED or (one.source == PASTED) != (added.source == PASTED):
        return False
    if added.source == PASTED:
        return (
            re.fullmatch(re.escape(name_key(added.title)) + r"( \(\d+\))*", name_key(one.title)) is not None
        )
    return one.origin == added.origin and (bool(one.origin) or name_key(one.source) == name_key(added.source))


def _is_unchanged(connection: sqlite3.Connection, older: StoredText) -> bool:
    """Returns whether a document still exists with the text that was compared."""
    found = document_table.version(connection, older.document)
    return found.digest == older.digest and found.state not in document_table.HIDDEN


def _keep_version(connection: sqlite3.Connection, document: int, now: float) -> None:
    text_table.move(connection, document, document_table.add_version(connection, document, now))


def _note_duplicate(connection: sqlite3.Connection, document: int, note: str) -> None:
    """Notes that a document's text was added again, and retries a failed or cancelled document."""
    about = document_table.document(connection, document)
    if about.state in ("failed", "cancelled"):
        document_table.set_state(connection, document, "waiting")
        document_table.update(connection, document, note=note)
    elif note not in about.note:
        document_table.update(connection, document, note=_joined(about.note, note))


def _free_title(
    connection: sqlite3.Connection, collection: int, title: str, besides: int = 0
) -> tuple[str, str]:
    """Returns a free title and a note: the title itself and "", or the title with a number if it is taken."""
    known = document_table.stored_texts(connection, collection, besides)
    taken = {name_key(one.title) for one in known}
    free = next(name for name in numbered(title) if name_key(name) not in taken)
    return free, NOT_REPLACED if free != title else ""


def _joined(*notes: str) -> str:
    return " ".join(filter(None, notes))


def _delete(connection: sqlite3.Connection, document: int) -> None:
    """Deletes a document whose text was moved to another one, with the few passages of an earlier attempt."""
    passage_table.drop(connection, passage_table.some_ids(connection, document, -1))
    document_table.delete(connection, document)
