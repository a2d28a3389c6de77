"""A file's text on its way into the database: how much of it is taken."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from app.database import Database
from app.documents import collection_table, document_table, file_import, text_table
from app.documents.file_import import FileImport, PendingFiles
from app.documents.indexing import Task
from app.documents.reading import TextPiece
from app.errors import DocumentUnreadable

PART = "Eggs boil. " * 10_000


class EndlessReading:
    """A small file that unpacks to no end."""

    def messages(self) -> Iterator[TextPiece]:
        while True:
            yield TextPiece(PART)

    def kill(self) -> None:
        """Nothing runs."""


@pytest.fixture
def task(database: Database) -> Task:
    with database.writing() as connection:
        notes = collection_table.create(connection, "Notes", 0.0)
        return Task(database, document_table.add(connection, notes, "eggs.txt", "eggs.txt", 0.0))


def stored(task: Task) -> int:
    with task.database.reading() as connection:
        return len(text_table.whole(connection, task.document))


def test_a_file_that_unpacks_to_no_end_is_refused_and_leaves_nothing(task: Task) -> None:
    begun = FileImport(task, "eggs.txt", max_characters=3_000_000)
    with pytest.raises(DocumentUnreadable, match=r"eggs\.txt has more than 3,000,000 characters: split it"):
        begun.read(EndlessReading())
    assert 0 < stored(task) <= 3_000_000
    begun.drop()
    assert stored(task) == 0


def test_of_a_file_with_too_much_in_it_no_text_is_kept(task: Task, tmp_path: Path) -> None:
    (tmp_path / "eggs.txt").write_text("Eggs boil. " * 300_000)
    waiting = PendingFiles(tmp_path / "data")
    waiting.keep(waiting.copy(tmp_path / "eggs.txt"), task.document, "eggs.txt")
    with pytest.raises(DocumentUnreadable, match="has more than 2,000,000 characters"):
        file_import.import_file(task, waiting, 0.0, max_characters=2_000_000)
    assert stored(task) == 0
