"""What nobody told the indexing thread of, it finds by itself a little later."""

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from app.database.database import Database, database_in
from app.documents import document_table, duplicates
from app.documents.document_table import StoredText
from app.documents.documents import Documents
from app.documents.duplicates import NO_TEXT, PASTED
from app.documents.file_import import PendingFiles
from app.documents.worker import DocumentWorker
from app.errors import StoreNotUsable
from tests.documents.test_documents import EGGS
from tests.documents.test_indexing import sections
from tests.support.waiting import until


@contextmanager
def indexing(database: Database, data: Path) -> Iterator[DocumentWorker]:
    """A thread that looks again at once, and had nothing to do when this begins."""
    with closing(DocumentWorker(database, PendingFiles(data), lambda: None, retry_seconds=0.01)) as indexer:
        indexer.start()
        indexer.wait()
        yield indexer


class BusyDatabase(Database):
    """One that another program holds for itself so many times that the indexing thread writes."""

    times_busy = 0

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        if self.times_busy and threading.current_thread().name == "documents":
            self.times_busy -= 1
            raise StoreNotUsable("Another program holds the file for itself: close it and try again.")
        with super().writing() as connection:
            yield connection


def paste(database: Database, text: str) -> int:
    """Put in a text, and tell nobody."""
    with database.writing() as connection:
        notes = document_table.create_collection(connection, 0.0, "Notes")
        return duplicates.store_pasted_text(
            connection, notes, StoredText(0, "Eggs", PASTED, characters=len(text)), text, "", NO_TEXT, 0.0
        )


def state(database: Database, document: int) -> str:
    with database.reading() as connection:
        return document_table.version(connection, document).state


def test_what_a_command_that_was_killed_left_is_taken_up_by_the_open_window(
    database: Database, tmp_path: Path
) -> None:
    with indexing(database, tmp_path):
        with closing(database_in(tmp_path / "data")) as command:
            document = paste(command, EGGS)
        until(lambda: state(database, document) == "ready")


def test_a_document_does_not_fail_because_another_program_holds_the_file_for_a_while(tmp_path: Path) -> None:
    with closing(BusyDatabase(tmp_path / "foresight.sqlite")) as database, indexing(database, tmp_path):
        document = paste(database, sections(500))
        until(lambda: state(database, document) == "indexing")
        database.times_busy = 1
        until(lambda: state(database, document) in ("ready", "failed"))
        assert (state(database, document), database.times_busy) == ("ready", 0)


def test_who_waits_hears_that_another_program_holds_the_file(tmp_path: Path) -> None:
    with (
        closing(BusyDatabase(tmp_path / "foresight.sqlite")) as database,
        closing(DocumentWorker(database, PendingFiles(tmp_path), lambda: None)) as indexer,
    ):
        document = paste(database, EGGS)
        database.times_busy = 1_000_000
        indexer.start()
        with pytest.raises(StoreNotUsable, match="Another program holds"):
            indexer.wait()
        assert state(database, document) == "waiting"
        database.times_busy = 0
        indexer.wake()
        until(lambda: state(database, document) == "ready")


def test_the_words_of_a_removed_document_wait_while_a_reply_is_written(
    documents: Documents, database: Database, notes: int
) -> None:
    document = documents.paste(notes, "Eggs boil. " * 2_000, "Eggs")
    documents.wait()
    is_writing = threading.Event()
    is_writing.set()
    documents.give_way(is_writing.is_set)
    documents.remove(document)
    documents.erase()

    def rows(table: str) -> int:
        with database.reading() as connection:
            return int(connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0])

    until(lambda: not rows("passage"))
    assert rows("document") == 1, "it goes last, so that the next start goes on"
    is_writing.clear()
    documents.wait()
    assert rows("document") == 0
