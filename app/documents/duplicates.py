"""Decides whether a text that is added to a collection is new, a duplicate, or a new version of a document.

A file is compared with documents from the same path, because many folders have a file of the same name. An upload
has no path, so it is compared with uploads of the same name. Texts are compared outside of transactions, because
comparing takes long."""

import re
import sqlite3
from collections import Counter

from app.database.database import Database
from app.documents import document_table, text_table
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
"""Characters of older texts after which no further text is compared, so that hundreds of texts with the same title
do not take long."""
MIN_SHARED = 0.6
"""Minimum share of an older text's trigrams in a newer version. With less, both texts are kept."""
MOST_REPLACED = 4_000_000
"""Maximum number of characters of an older and of a newer version, because moving a longer text takes too long."""
WORD = re.compile(r"\w+")

Trigrams = Counter[tuple[str, str, str]]


NO_TEXT = StoredText(0, "")


def older_version(database: Database, collection: int, added: StoredText, beginning: str) -> StoredText:
    """Returns the newest document of which the added text is a new version; NO_TEXT if none is found.

    `beginning` has at most the first COMPARED characters of the text."""
    with database.reading() as connection:
        known = document_table.stored_texts(connection, collection, besides=added.document)
    newer, compared = trigrams(beginning), 0
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
    connection: sqlite3.Connection, collection: int, added: StoredText, text: str, note: str,
    older: StoredText, now: float,
) -> int:  # fmt: skip
    """Stores a pasted text, unless the collection has the same text. Returns the document that has the text.

    `older` is the result of `older_version`."""
    digest = text_table.digest_of(text_table.parts_of(text))
    if duplicate := document_table.same_text(connection, collection, digest):
        _note_duplicate(connection, duplicate, PASTED_AGAIN)
        return duplicate
    document, kept = older.document, REPLACED
    if _is_unchanged(connection, older):
        _keep_version(connection, document, now)
    else:
        title, kept = _free_title(connection, collection, added.title)
        document = document_table.add(connection, collection, title, PASTED, now)
    text_table.append(connection, document, 0, text_table.parts_of(text))
    document_table.set_text(connection, document, digest, len(text), _joined(note, kept))
    return document


def store_file_text(
    connection: sqlite3.Connection, document: int, new: StoredText, note: str, older: StoredText, now: float
) -> int:
    """Finishes the import of a file whose text is stored. Returns the document that now has the text.

    For a duplicate or a new version this is an older document, and the imported document is deleted."""
    about = document_table.document(connection, document)
    if duplicate := document_table.same_text(connection, about.collection, new.digest, besides=document):
        again = f"{about.source} was added again with the same text. It is stored once."
        _note_duplicate(connection, duplicate, PASTED_AGAIN if about.source == PASTED else again)
        document_table.delete(connection, document)
        return duplicate
    if _is_unchanged(connection, older):
        _keep_version(connection, older.document, now)
        text_table.move(connection, document, older.document)
        document_table.set_text(
            connection, older.document, new.digest, new.characters, _joined(note, REPLACED)
        )
        document_table.delete(connection, document)
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

    Raises DocumentNotFound if the document is unknown or has no older version."""
    about = document_table.document(connection, document)
    older = document_table.newest_version(connection, document)
    newer = document_table.stored_text(connection, document)
    title, _ = _free_title(connection, about.collection, about.title)
    other = document_table.add(connection, about.collection, title, about.source, now, newer.origin)
    text_table.move(connection, document, other)
    document_table.set_text(connection, other, newer.digest, newer.characters, "")
    text_table.move(connection, older.document, document)
    document_table.set_text(connection, document, older.digest, older.characters, "")
    document_table.delete(connection, older.document)
    return other


def trigrams(text: str) -> Trigrams:
    """Counts the sequences of three words in a text, with two empty words before and after the text."""
    words = WORD.findall(spaced(text).casefold())
    padded = ["", "", *words, "", ""] if words else []
    return Counter(zip(padded, padded[1:], padded[2:], strict=False))


def is_new_version(newer: Trigrams, older: Trigrams) -> bool:
    """Returns whether the newer text contains at least MIN_SHARED of the older text's trigrams."""
    return bool(older) and (older & newer).total() >= MIN_SHARED * older.total()


def _may_be_older(one: StoredText, added: StoredText) -> bool:
    """Returns whether a stored text is short enough and of the added text's kind. In addition, a pasted text must
    have the same title, a file the same path, and an upload the same file name."""
    if one.characters > MOST_REPLACED or (one.source == PASTED) != (added.source == PASTED):
        return False
    if added.source == PASTED:
        return (
            re.fullmatch(re.escape(name_key(added.title)) + r"( \(\d+\))*", name_key(one.title)) is not None
        )
    return one.origin == added.origin and (bool(one.origin) or name_key(one.source) == name_key(added.source))


def _is_unchanged(connection: sqlite3.Connection, older: StoredText) -> bool:
    found = document_table.version(connection, older.document)
    return found.digest == older.digest and found.state not in document_table.HIDDEN


def _keep_version(connection: sqlite3.Connection, document: int, now: float) -> None:
    text_table.move(connection, document, document_table.add_version(connection, document, now))


def _note_duplicate(connection: sqlite3.Connection, document: int, note: str) -> None:
    about = document_table.document(connection, document)
    if about.state in ("failed", "cancelled"):
        document_table.set_state(connection, document, "waiting")
        document_table.update(connection, document, note=note)
    elif note not in about.note:
        document_table.update(connection, document, note=_joined(about.note, note))


def _free_title(
    connection: sqlite3.Connection, collection: int, title: str, besides: int = 0
) -> tuple[str, str]:
    """Returns a title that no other complete text has, and a note: "", or NOT_REPLACED if a number was added."""
    known = document_table.stored_texts(connection, collection, besides)
    taken = {name_key(one.title) for one in known}
    free = next(name for name in numbered(title) if name_key(name) not in taken)
    return free, NOT_REPLACED if free != title else ""


def _joined(*notes: str) -> str:
    return " ".join(filter(None, notes))
