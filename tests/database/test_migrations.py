"""The schema's history."""

import shutil
import sqlite3
from contextlib import closing
from itertools import takewhile
from pathlib import Path

import pytest

from app.chats.chats import Chats
from app.database.database import Database
from app.database.migrations import read_migrations, statements
from app.settings import assets_dir

FOLDER = assets_dir() / "migrations"
ALL = sorted(FOLDER.glob("*.sql"))
A_CHAT_OF_THE_FIRST_SCHEMA = """
INSERT INTO chat (id, title, created, updated, shown, version) VALUES (7, 'Old times', 1, 2, 2, 5);
INSERT INTO message (id, chat, parent, role, text, state, created) VALUES (1, 7, NULL, 'user', 'Hi?', 'done', 1);
INSERT INTO message (id, chat, parent, role, text, state, created) VALUES (2, 7, 1, 'assistant', 'Ho.', 'done', 2);
INSERT INTO message_words (rowid, text) VALUES (1, 'Hi?');
INSERT INTO message_words (rowid, text) VALUES (2, 'Ho.');
INSERT INTO chat_words (rowid, title) VALUES (7, 'Old times');
"""


def migrations_in(folder: Path, *scripts: str) -> Path:
    folder.mkdir(exist_ok=True)
    for number, script in enumerate(scripts, start=1):
        (folder / f"{number:04}_step.sql").write_text(script)
    return folder


def schema(path: Path) -> list[tuple[str, str]]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute("SELECT name, sql FROM sqlite_master ORDER BY name").fetchall()


def test_the_folders_of_chats_become_folders_of_their_own(tmp_path: Path) -> None:
    first = tmp_path / "migrations"
    first.mkdir()
    for path in takewhile(lambda path: not path.stem.endswith("folders"), ALL):
        shutil.copy(path, first)
    path = tmp_path / "foresight.sqlite"
    with closing(Database(path, first)) as old, old.writing() as connection:
        connection.execute("INSERT INTO chat (folder, created, updated) VALUES ('Work', 1, 1), ('', 1, 1)")
    with closing(Database(path)) as new:
        chats = Chats(new)
        chats.move(1, "")
        assert chats.folders() == ("Work",)


@pytest.mark.parametrize("released", range(1, len(ALL) + 1))
def test_a_chat_of_every_schema_is_there_in_the_newest(tmp_path: Path, released: int) -> None:
    first = tmp_path / "migrations"
    first.mkdir()
    for path in ALL[:released]:
        shutil.copy(path, first)
    path = tmp_path / "foresight.sqlite"
    with closing(Database(path, first)) as old, old.writing() as connection:
        for statement in statements(A_CHAT_OF_THE_FIRST_SCHEMA):
            connection.execute(statement)
    with closing(Database(path)) as new:
        chats = Chats(new)
        assert [message.text for message in chats.thread(7).messages] == ["Hi?", "Ho."]
        assert [found.summary.id for found in chats.search("ho")] == [7]
        assert (chats.summaries()[0].title, new.damage()) == ("Old times", "")


def test_the_steps_lead_to_one_schema(tmp_path: Path) -> None:
    paths = [tmp_path / "at-once.sqlite", tmp_path / "step-by-step.sqlite"]
    Database(paths[0]).close()
    folder = tmp_path / "migrations"
    folder.mkdir()
    for path in ALL:
        shutil.copy(path, folder)
        Database(paths[1], folder).close()
    assert schema(paths[0]) == schema(paths[1])


def test_a_migration_that_fails_leaves_everything_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "foresight.sqlite"
    good = "CREATE TABLE a (b);\nINSERT INTO a VALUES (1);"
    Database(path, migrations_in(tmp_path / "one", good)).close()
    before = schema(path)
    broken = migrations_in(tmp_path / "two", good, "CREATE TABLE c (d);\nINSERT INTO nowhere VALUES (1);")
    with pytest.raises(sqlite3.OperationalError):
        Database(path, broken)
    assert schema(path) == before
    with closing(Database(path, tmp_path / "one")) as database, database.reading() as connection:
        assert connection.execute("SELECT b FROM a").fetchone()[0] == 1


def test_a_migration_may_rebuild_a_table_that_others_refer_to(tmp_path: Path) -> None:
    first = (
        "CREATE TABLE a (id INTEGER PRIMARY KEY);\n"
        "CREATE TABLE b (a INTEGER REFERENCES a (id) ON DELETE CASCADE);\n"
        "INSERT INTO a VALUES (1);\nINSERT INTO b VALUES (1);"
    )
    rebuild = (
        "CREATE TABLE new_a (id INTEGER PRIMARY KEY, more TEXT);\nINSERT INTO new_a SELECT id, '' FROM a;\n"
        "DROP TABLE a;\nALTER TABLE new_a RENAME TO a;"
    )
    path = tmp_path / "foresight.sqlite"
    Database(path, migrations_in(tmp_path / "steps", first)).close()
    rebuilt = migrations_in(tmp_path / "steps", first, rebuild)
    with closing(Database(path, rebuilt)) as database, database.reading() as connection:
        assert connection.execute("SELECT count(*) FROM b").fetchone()[0] == 1
        assert connection.execute("PRAGMA foreign_keys").fetchone()[0] == 1


def test_a_migration_that_loses_a_parent_is_refused(tmp_path: Path) -> None:
    first = (
        "CREATE TABLE a (id INTEGER PRIMARY KEY);\nCREATE TABLE b (a REFERENCES a (id));\n"
        "INSERT INTO a VALUES (1);\nINSERT INTO b VALUES (1);"
    )
    with pytest.raises(ValueError, match="no row without its parent"):
        Database(tmp_path / "f.sqlite", migrations_in(tmp_path / "steps", first, "DELETE FROM a;"))


def test_a_missing_number_is_refused(tmp_path: Path) -> None:
    (tmp_path / "0002_second.sql").write_text("")
    with pytest.raises(ValueError, match="numbered 1, 2, 3"):
        read_migrations(tmp_path)


def test_a_trigger_is_one_statement_and_comments_are_none() -> None:
    script = (
        "-- what\nCREATE TABLE a (b); -- c\nCREATE TRIGGER t AFTER DELETE ON a BEGIN\n"
        "  DELETE FROM a;\n  DELETE FROM a;\nEND;\n-- end\n"
    )
    found = list(statements(script))
    assert len(found) == 2
    assert found[1].lstrip().startswith("-- c") or "CREATE TRIGGER" in found[1]


def test_half_a_statement_is_refused() -> None:
    with pytest.raises(ValueError, match="whole statement"):
        list(statements("CREATE TABLE a (b);\nCREATE TABLE c (d)"))
