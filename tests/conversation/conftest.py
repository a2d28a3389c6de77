"""An engine, and a file for chats."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from app.database.database import Database
from tests.conversation.people import PatientEngine


@pytest.fixture
def engine() -> PatientEngine:
    return PatientEngine()


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    kept = Database(tmp_path / "foresight.db")
    yield kept
    kept.close()
