"""Chats in a real file, with a clock that the test moves."""

from collections.abc import Iterator
from contextlib import closing
from itertools import count
from pathlib import Path

import pytest

from app.chats.chats import Chats
from app.database.database import Database


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    with closing(Database(tmp_path / "foresight.sqlite")) as opened:
        yield opened


@pytest.fixture
def chats(database: Database) -> Chats:
    clock = count(1000)
    return Chats(database, lambda: float(next(clock)))
