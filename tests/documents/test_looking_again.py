"""What nobody told the indexing thread of, it finds by itself a little later."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from app.database import Database, database_in
from app.documents import collections, intake, records
from app.documents.inbox import Inbox
from app.documents.indexing import Indexer
from app.documents.intake import Pasted
from tests.documents.test_documents import EGGS
from tests.documents.test_vectorising import until


@contextmanager
def indexing(database: Database, data: Path) -> Iterator[Indexer]:
    """A thread that looks again at once, and had nothing to do when this begins."""
    with closing(Indexer(database, Inbox(data), lambda: None, look_again=0.01)) as indexer:
        indexer.start()
        indexer.wait()
        yield indexer


def paste(database: Database, text: str) -> int:
    """Put in a text, and tell nobody."""
    with database.writing() as connection:
        notes = collections.create(connection, "Notes", 0.0)
        return intake.paste(connection, notes, Pasted(text, "Eggs"), 0.0)


def state(database: Database, document: int) -> str:
    with database.reading() as connection:
        return records.state(connection, document)


def test_what_a_command_that_was_killed_left_is_taken_up_by_the_open_window(
    database: Database, tmp_path: Path
) -> None:
    with indexing(database, tmp_path):
        with closing(database_in(tmp_path / "data")) as command:
            document = paste(command, EGGS)
        until(lambda: state(database, document) == "ready")
