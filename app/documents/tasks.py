"""The one document that is worked on, until its work is done or nobody wants it any more.

A job sets the document's state and notes that with the text it works on. Whoever cancels, removes or replaces the
text changes one of the two, in this process or another, and the next transaction of the job finds it:

    begin "indexing", text A  ->  write  ->  (pasted: "waiting", text B)  ->  write: LeftOff
"""

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from app.database import Database
from app.documents import records

WANTED = ("waiting", "reading", "indexing")


class LeftOff(Exception):
    """The document was cancelled, removed or given another text, or the app ends."""


class Task:
    """Work on a document in short transactions, between which it may be stopped from any thread."""

    def __init__(self, database: Database, document: int) -> None:
        self.database = database
        self.document = document
        self._is_stopped = threading.Event()
        self._begun: records.Version | None = None
        self._at_stop: Callable[[], None] | None = None

    def stop(self) -> None:
        """Have it leave off soon."""
        self._is_stopped.set()
        if self._at_stop:
            self._at_stop()

    @contextmanager
    def stopped_by(self, kill: Callable[[], None]) -> Iterator[None]:
        """Call `kill` when the work is stopped inside."""
        self._at_stop = kill
        if self._is_stopped.is_set():
            kill()
        try:
            yield
        finally:
            self._at_stop = None

    def require_wanted(self) -> None:
        """Raise LeftOff when the work was stopped."""
        if self._is_stopped.is_set():
            raise LeftOff

    @contextmanager
    def beginning(self, state: str) -> Iterator[sqlite3.Connection]:
        """The first transaction of a job, which sets the document's state. Raises LeftOff for one not wanted."""
        with self.database.writing() as connection:
            self.require_wanted()
            if records.state(connection, self.document) not in WANTED:
                raise LeftOff
            records.set_state(connection, self.document, state)
            self._begun = records.version(connection, self.document)
            yield connection

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """A transaction of a job that has begun. Raises LeftOff when somebody changed the document since."""
        with self.database.writing() as connection:
            self.require_wanted()
            if records.version(connection, self.document) != self._begun:
                raise LeftOff
            yield connection
