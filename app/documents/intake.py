"""What becomes of a text that comes into a collection: it is new, or there already, or a newer form of one.

the same text              the document that is there stays, and its note says that it came again; it is tried again
                           if it failed or was cancelled
other words, same title    (pasted) the document takes the new text; passages that have not changed keep their rows
the same, a guessed title  likewise if the texts are alike (likeness.py); else it is a new text, called "… (2)"
other words, same file     the document takes the new text
the same, an upload        likewise if the texts are alike: of an upload nothing but its name is known
"""

import sqlite3
from collections.abc import Collection
from dataclasses import dataclass
from itertools import count

from app.document_messages import Document
from app.documents import passage_rows, records, texts
from app.documents.likeness import is_newer_form

PASTED = "pasted"
TOOK_THE_PLACE = "It took the place of an older form of this text."


@dataclass(frozen=True, slots=True)
class Pasted:
    """A text that somebody pasted, cleaned, with what is to be told of that."""

    text: str
    title: str
    is_title_guessed: bool = False
    note: str = ""


def paste(connection: sqlite3.Connection, collection: int, pasted: Pasted, now: float) -> int:
    """Put in a text that somebody pasted; its document."""
    digest = texts.digest_of(texts.parts_of(pasted.text))
    if there := records.same_text(connection, collection, digest):
        _keep(connection, there, "The same text was pasted again; it is kept once.")
        return there
    taken = records.pasted_titles(connection, collection)
    older = _older_form(connection, pasted, taken)
    title = _free_title(pasted.title, taken.values())
    document = older or records.add(connection, collection, title, PASTED, now)
    texts.clear(connection, document)
    texts.append(connection, document, 0, texts.parts_of(pasted.text))
    note = _joined(pasted.note, TOOK_THE_PLACE) if older else pasted.note
    records.set_text(connection, document, digest, len(pasted.text), note)
    return document


def settle(connection: sqlite3.Connection, document: int, digest: bytes, characters: int, note: str) -> int:
    """Say that a file's text is stored whole; the document that has it now."""
    about = records.document(connection, document)
    if there := records.same_text(connection, about.collection, digest, besides=document):
        _keep(connection, there, f"{about.source} came again with the same text; it is kept once.")
        _leave(connection, document)
        return there
    if older := _same_file(connection, about):
        texts.give(connection, document, older)
        records.set_text(connection, older, digest, characters, _joined(note, TOOK_THE_PLACE))
        _leave(connection, document)
        return older
    records.set_text(connection, document, digest, characters, note)
    return document


def _keep(connection: sqlite3.Connection, document: int, told: str) -> None:
    """Say that a document's text came again, which also asks for one that failed or was cancelled."""
    about = records.document(connection, document)
    if about.state in ("failed", "cancelled"):
        records.set_state(connection, document, "waiting")
        records.set_note(connection, document, told)
    elif told not in about.note:
        records.set_note(connection, document, _joined(about.note, told))


def _older_form(connection: sqlite3.Connection, pasted: Pasted, taken: dict[int, str]) -> int:
    """The document that a pasted text is a newer form of, among those with these titles; 0 for none.

    A title that was typed says it; one that was guessed says only where to look."""
    if not pasted.is_title_guessed:
        return next((document for document, title in taken.items() if title == pasted.title), 0)
    titles = {pasted.title, *(_numbered(pasted.title, number) for number in range(2, len(taken) + 2))}
    for document in (document for document, title in taken.items() if title in titles):
        if is_newer_form(texts.parts_of(pasted.text), texts.parts(connection, document), PASTED):
            return document
    return 0


def _same_file(connection: sqlite3.Connection, about: Document) -> int:
    """The document that was read from the same file before; 0 for none."""
    if origin := records.origin(connection, about.id):
        return records.same_origin(connection, about.collection, origin, besides=about.id)
    for older in records.uploads(connection, about.collection, about.source, besides=about.id):
        text, before = (texts.parts(connection, one) for one in (about.id, older))
        if is_newer_form(text, before, about.source):
            return older
    return 0


def _free_title(title: str, taken: Collection[str]) -> str:
    """The title, with the first number that makes it another than those that are taken."""
    if title not in taken:
        return title
    return next(free for number in count(2) if (free := _numbered(title, number)) not in taken)


def _numbered(title: str, number: int) -> str:
    return f"{title} ({number})"


def _joined(*notes: str) -> str:
    return " ".join(filter(None, notes))


def _leave(connection: sqlite3.Connection, document: int) -> None:
    """Delete a document that has come to nothing: it has no passages yet, or few of an attempt before."""
    passage_rows.drop(connection, passage_rows.some(connection, document, -1))
    records.delete(connection, document)
