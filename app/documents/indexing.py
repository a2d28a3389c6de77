"""Indexes documents and deletes their rows in short transactions, and repairs documents after a rescue.

SQLite overwrites what is deleted (secure_delete), but the FTS5 index keeps deleted words until its segments are
merged. They are merged a few pages at a time, and the document's row is deleted last, so that the next start can
continue."""

import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, islice

from app.database.database import Database
from app.documents import document_table, passage_table, text_table
from app.documents.chunking import chunks
from app.documents.duplicates import PASTED
from app.documents.search.languages import MAX_IDENTIFIED, language_of
from app.values.display_text import title_of
from app.values.document import UNFINISHED

UNTITLED = "Untitled"
BATCH = 200
"""Maximum number of passages that indexing writes, or deletes, in one transaction."""
DELETED_PASSAGES = 200
"""Maximum number of passages of a removed document that are deleted in one transaction."""
DELETED_PARTS = 100
"""Maximum number of parts of a removed document's text that are deleted in one transaction."""
CUT = "Part of this text could not be read from the damaged database. Add it again to have all of it."
LOST = "The text of this document could not be read from the damaged database. Add it again."
ADOPT_TEXTS = """
    INSERT INTO document (id, collection, title, source, state, added)
    SELECT DISTINCT document, (SELECT ifnull(max(id), 0) + 1 FROM collection), '', 'pasted', 'waiting', 0
    FROM document_text WHERE document NOT IN (SELECT id FROM document)
"""
ADOPT_DOCUMENTS = """
    INSERT INTO collection (id, name, created)
    SELECT DISTINCT collection, 'Rescued documents ' || collection, 0
    FROM document WHERE collection NOT IN (SELECT id FROM collection)
"""
ADOPT_VERSIONS = """
    UPDATE document SET state = 'waiting', replaced_by = NULL WHERE replaced_by NOT IN (SELECT id FROM document)
"""
DROP_ORPHANS = (
    "DELETE FROM passage WHERE document NOT IN (SELECT id FROM document)",
    "DELETE FROM passage_vector WHERE passage NOT IN (SELECT id FROM passage)",
)


class TaskCancelled(Exception):
    """The document was cancelled, removed or given another text, or the app is closing."""


class Task:
    """Work on one document. Any thread may stop the work, which then ends before its next transaction."""

    def __init__(self, database: Database, document: int) -> None:
        self.database = database
        self.document = document
        self._is_stopped = threading.Event()
        self._version: document_table.DocumentVersion | None = None
        self._at_stop: Callable[[], None] | None = None

    def stop(self) -> None:
        """Ends the work before its next transaction, and calls the function of `stopped_by`."""
        self._is_stopped.set()
        if self._at_stop:
            self._at_stop()

    @contextmanager
    def stopped_by(self, kill: Callable[[], None]) -> Iterator[None]:
        """Calls `kill` if the task is stopped within this context, or was stopped before."""
        self._at_stop = kill
        if self._is_stopped.is_set():
            kill()
        try:
            yield
        finally:
            self._at_stop = None

    def require_running(self) -> None:
        if self._is_stopped.is_set():
            raise TaskCancelled

    @contextmanager
    def beginning(self, state: str) -> Iterator[sqlite3.Connection]:
        """Runs the first transaction, which sets the document's state.

        Raises TaskCancelled if the task was stopped or the document is in none of UNFINISHED."""
        with self.database.writing() as connection:
            self.require_running()
            if document_table.version(connection, self.document).state not in UNFINISHED:
                raise TaskCancelled
            document_table.set_state(connection, self.document, state)
            self._version = document_table.version(connection, self.document)
            yield connection

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Runs a later transaction.

        Raises TaskCancelled if the task was stopped or the document has changed since the first transaction."""
        with self.database.writing() as connection:
            self.require_running()
            if document_table.version(connection, self.document) != self._version:
                raise TaskCancelled
            yield connection


def index(task: Task) -> None:
    """Splits a document's stored text into passages and indexes them. Raises TaskCancelled."""
    with task.beginning("indexing") as connection:
        about = document_table.document(connection, task.document)
        before = passage_table.stored_passages(connection, task.document)
        language = document_table.language(connection, task.document)
        beginning = text_table.between(connection, task.document, 0, MAX_IDENTIFIED)
    language = language or language_of(beginning)
    with task.writing() as connection:
        document_table.update(connection, task.document, language=language)
    found = chunks(text_table.each_part(task.database, task.document), about.source)
    named = about.title if about.source in (about.title, PASTED) else f"{about.title}\n{about.source}"
    new = (passage_table.new_passage(named, language, one) for one in found)
    done = 0
    while batch := list(islice(new, BATCH)):
        done += len(batch)
        total = max(done, round(done * about.characters / batch[-1].chunk.end))
        with task.writing() as connection:
            passage_table.put(connection, task.document, batch, before)
            document_table.update(connection, task.document, done=done, total=total)
    unused: Iterator[int] = (place.id for place in chain.from_iterable(before.values()))
    while ids := list(islice(unused, BATCH)):
        with task.writing() as connection:
            passage_table.drop(connection, ids)
    with task.writing() as connection:
        document_table.update(connection, task.document, state="ready", passages=done, done=done, total=done)


def delete_some(connection: sqlite3.Connection) -> bool:
    """Deletes some passages, or else text parts, of a document in state LEAVING. Returns False if none was left."""
    for document in document_table.leaving(connection):
        ids = passage_table.some_ids(connection, document, DELETED_PASSAGES)
        passage_table.drop(connection, ids)
        if ids or text_table.clear(connection, document, DELETED_PARTS):
            return True
    return False


def delete_empty(connection: sqlite3.Connection, gone: Sequence[int]) -> None:
    """Deletes these documents, whose passages and texts are deleted already, and empty collections that are to be
    erased."""
    for document in gone:
        document_table.delete(connection, document)
    document_table.delete_empty_collections(connection)


def mend_documents(connection: sqlite3.Connection) -> None:
    """Repairs documents saved from a damaged database. Their words are not indexed, and rows may be missing.

    Gives each text a document and each document a collection. A document whose text could be read, or whose file
    is still to be read, is marked as waiting, so that the next start continues. Others are marked as failed, except
    cancelled and hidden ones."""
    connection.execute(ADOPT_TEXTS)
    connection.execute(ADOPT_DOCUMENTS)
    connection.execute(ADOPT_VERSIONS)
    shown = f"SELECT * FROM document WHERE state NOT IN {document_table.HIDDEN}"
    for row in connection.execute(shown).fetchall():
        is_read = row["digest"] is not None or not row["title"]  # ADOPT_TEXTS gives no title
        if is_read and (text := text_table.whole(connection, row["id"])):
            _mend_text(connection, row, text)
        elif row["state"] not in ("failed", "cancelled"):
            waits = not is_read and row["state"] in UNFINISHED
            text_table.clear(connection, row["id"])
            document_table.set_state(connection, row["id"], *(("waiting",) if waits else ("failed", LOST)))
    for statement in DROP_ORPHANS:
        connection.execute(statement)


def _mend_text(connection: sqlite3.Connection, row: sqlite3.Row, text: str) -> None:
    """Divides a saved text into full parts again. Marks its document as waiting, with a note if text is lost."""
    document, parts = row["id"], list(text_table.parts_of(text))
    digest = text_table.digest_of(parts)
    if parts != list(text_table.parts(connection, document)):
        text_table.clear(connection, document)
        text_table.append(connection, document, 0, parts)
    note = row["note"] if row["digest"] in (digest, None) else CUT
    document_table.set_text(connection, document, digest, len(text), note)
    if not row["title"]:
        document_table.update(connection, document, title=title_of(text) or UNTITLED)
