"""What the app leaves in the database when it ends."""

from contextlib import closing
from pathlib import Path

import pytest

from app.database import Database
from app.startup import open_chat_stores


def left(database: Database) -> list[str]:
    with database.reading() as connection:
        return [row["title"] for row in connection.execute("SELECT title FROM chat")]


def test_a_deleted_chat_is_forgotten_when_the_app_ends_however_it_does(tmp_path: Path) -> None:
    with closing(Database(tmp_path / "foresight.sqlite")) as database:
        with pytest.raises(KeyboardInterrupt), open_chat_stores(database) as stores:
            stores.stored.create(title="kept")
            stores.stored.delete(stores.stored.create(title="deleted").chat)
            assert left(database) == ["kept", "deleted"], "so that it can be undone"
            raise KeyboardInterrupt
        assert left(database) == ["kept"]


def test_a_deleted_chat_of_a_run_that_was_killed_is_forgotten_at_the_start(tmp_path: Path) -> None:
    with closing(Database(tmp_path / "foresight.sqlite")) as database:
        with open_chat_stores(database) as stores:
            chat = stores.stored.create(title="deleted").chat
        with database.writing() as connection:
            connection.execute("UPDATE chat SET deleted = 1.0 WHERE id = ?", (chat,))
        with open_chat_stores(database):
            assert left(database) == []
