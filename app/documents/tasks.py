"""The one document that is worked on, until its work is done or nobody wants it any more."""

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from app.database import Database
from app.documents import records

WANTED = ("waiting", "reading", "indexing")


class LeftOff(Exception):
    """The document was cancelled or removed, or the app ends."""


class Task:
    """Work on a document in short transactions, between which it may be stopped from any thread."""

    def __init__(self, database: Database, document: int) -> None:
        self.database = database
        self.document = document
        self._is_stopped = threading.Event()
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
    def writing(self) -> Iterator[sqlite3.Connection]:
        """A transaction for the document. Raises LeftOff when it is no longer wanted."""
        with self.database.writing() as connection:
            if self._is_stopped.is_set() or records.state(connection, self.document) not in WANTED:
                raise LeftOff
            yield connection
