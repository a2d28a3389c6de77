"""Documents on a SQLite file of their own."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from app.database.database import Database, database_in
from app.documents.documents import Documents


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    with closing(database_in(tmp_path / "data")) as opened:
        yield opened


@pytest.fixture
def documents(database: Database, tmp_path: Path) -> Iterator[Documents]:
    with closing(Documents(database, tmp_path / "data")) as opened:
        yield opened


@pytest.fixture
def notes(documents: Documents) -> int:
    return documents.create("Notes")
