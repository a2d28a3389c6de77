"""Work on one document in short transactions: indexing it, and deleting its rows.

A task sets the document's state and remembers it together with the text. Whoever cancels, removes or replaces the
text changes one of the two, in this process or another, and the next transaction of the task notices:

    begin "indexing", text A  ->  write  ->  (pasted: "waiting", text B)  ->  write: TaskCancelled

Chunks are compared with the stored passages. Unchanged passages keep their rows and vectors, so a stop, a crash or
a newer text costs only what is new.

A removed document is hidden at once. Its rows are deleted a batch at a time, so that nobody waits long. SQLite
overwrites what is deleted (secure_delete), but the FTS5 index keeps deleted words until its segments are merged.
They are merged a few pages at a time, and only then the document's own row is deleted, so the next start can go on.
"""

import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, islice

from app.database import Database
from app.documents import collection_table, document_table, passage_table, text_table
from app.documents.chunking import chunks
from app.documents.passage_table import NewPassage, StoredPassages

ACTIVE_STATES = ("waiting", "reading", "indexing")
BATCH = 200
"""Passages that are written in one transaction."""
DELETED_PASSAGES = 200
"""Passages that are deleted in one transaction."""
DELETED_PARTS = 100
"""Parts of a text that are deleted in one transaction."""


class TaskCancelled(Exception):
    """The document was cancelled, removed or given another text, or the app is closing."""


class Task:
    """Work on one document. Any thread may stop it between two transactions."""

    def __init__(self, database: Database, document: int) -> None:
        self.database = database
        self.document = document
        self._is_stopped = threading.Event()
        self._version: document_table.DocumentVersion | None = None
        self._at_stop: Callable[[], None] | None = None

    def stop(self) -> None:
        """Stop soon."""
        self._is_stopped.set()
        if self._at_stop:
            self._at_stop()

    @contextmanager
    def stopped_by(self, kill: Callable[[], None]) -> Iterator[None]:
        """Call `kill` when the task is stopped within this context."""
        self._at_stop = kill
        if self._is_stopped.is_set():
            kill()
        try:
            yield
        finally:
            self._at_stop = None

    def require_running(self) -> None:
        """Raise TaskCancelled when the task was stopped."""
        if self._is_stopped.is_set():
            raise TaskCancelled

    @contextmanager
    def beginning(self, state: str) -> Iterator[sqlite3.Connection]:
        """The first transaction, which sets the document's state. Raises TaskCancelled when it is not active."""
        with self.database.writing() as connection:
            self.require_running()
            if document_table.state(connection, self.document) not in ACTIVE_STATES:
                raise TaskCancelled
            document_table.set_state(connection, self.document, state)
            self._version = document_table.version(connection, self.document)
            yield connection

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """A later transaction. Raises TaskCancelled when the document has changed since the first one."""
        with self.database.writing() as connection:
            self.require_running()
            if document_table.version(connection, self.document) != self._version:
                raise TaskCancelled
            yield connection


def index(task: Task) -> None:
    """Index a document whose text is stored."""
    with task.beginning("indexing") as connection:
        about = document_table.document(connection, task.document)
        before = passage_table.stored_passages(connection, task.document)
    found = chunks(text_table.each_part(task.database, task.document), about.source)
    new = (passage_table.new_passage(about.title, one) for one in found)
    done = 0
    while batch := list(islice(new, BATCH)):
        done += len(batch)
        _write(task, batch, before, done, round(done * about.characters / batch[-1].chunk.end))
    _drop_unused(task, before)
    with task.writing() as connection:
        document_table.set_ready(connection, task.document, done)


def _write(task: Task, batch: list[NewPassage], before: StoredPassages, done: int, total: int) -> None:
    with task.writing() as connection:
        passage_table.put(connection, task.document, batch, before)
        document_table.set_progress(connection, task.document, done, max(done, total))


def _drop_unused(task: Task, before: StoredPassages) -> None:
    ids: Iterator[int] = (place.id for place in chain.from_iterable(before.values()))
    while batch := list(islice(ids, BATCH)):
        with task.writing() as connection:
            passage_table.drop(connection, batch)


def delete_some(connection: sqlite3.Connection) -> bool:
    """Delete some rows of hidden documents; returns whether there were any."""
    for document in document_table.leaving(connection):
        ids = passage_table.some_ids(connection, document, DELETED_PASSAGES)
        passage_table.drop(connection, ids)
        if ids or text_table.clear(connection, document, DELETED_PARTS):
            return True
    return False


def delete_empty(connection: sqlite3.Connection, gone: Sequence[int]) -> None:
    """Delete hidden documents that have no rows left."""
    for document in gone:
        document_table.delete(connection, document)
    collection_table.delete_empty(connection)
