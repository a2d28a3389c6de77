"""Restoring a backup: what is checked, what is moved aside, and what a crash leaves."""

import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from app.database.database import Database, database_in
from app.database.restoring import STAGED, apply_staged, discard_copies, stage
from app.errors import StoreError, StoreNotUsable, StoreTooNew
from tests.database.test_database import names, put


@pytest.fixture
def backup(tmp_path: Path) -> Path:
    """A backup with one preset."""
    with closing(Database(tmp_path / "old.sqlite")) as old:
        put(old, "from the backup")
        old.backup(tmp_path / "backup.sqlite")
    return tmp_path / "backup.sqlite"


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A data folder whose database has another preset."""
    with closing(database_in(tmp_path / "data")) as database:
        put(database, "from today")
    yield tmp_path / "data"


def kept_in(folder: Path) -> list[Path]:
    return sorted(folder.glob("before-restore-*.sqlite"))


def test_a_staged_backup_takes_the_place_of_the_database_and_what_was_there_is_kept(
    folder: Path, backup: Path
) -> None:
    stage(backup, folder)
    with closing(database_in(folder)) as database:
        assert names(database) == ["from today"], "nothing changes while the app has it open"
    sentence = apply_staged(folder)
    with closing(database_in(folder)) as database:
        assert names(database) == ["from the backup"]
    (kept,) = kept_in(folder)
    assert str(kept) in sentence
    with closing(Database(kept)) as before:
        assert names(before) == ["from today"]
    assert apply_staged(folder) == "", "once"


def test_an_older_schema_is_migrated(folder: Path, backup: Path, tmp_path: Path) -> None:
    first = tmp_path / "first"
    first.mkdir()
    oldest = min(Path("assets/migrations").glob("*.sql"))
    (first / oldest.name).write_bytes(oldest.read_bytes())
    with closing(Database(tmp_path / "oldest.sqlite", first)) as old:
        old.backup(backup)
    stage(backup, folder)
    apply_staged(folder)
    with closing(database_in(folder)) as database:
        assert database.damage() == ""


SPOILT: dict[str, Callable[[Path], object]] = {
    "empty": lambda file: file.write_bytes(b""),
    "a text": lambda file: file.write_bytes(b"no database at all" * 500),
    "cut": lambda file: os.truncate(file, 20_000),
    "deleted": Path.unlink,
}


@pytest.mark.parametrize("spoil", SPOILT.values(), ids=SPOILT)
def test_what_is_no_whole_backup_is_refused_and_changes_nothing(
    folder: Path, backup: Path, spoil: Callable[[Path], object]
) -> None:
    spoil(backup)
    with pytest.raises(StoreNotUsable, match=r"is not a whole backup of Foresight|There is no file"):
        stage(backup, folder)
    assert not list(folder.glob("restore*"))
    assert apply_staged(folder) == ""


@pytest.mark.parametrize(
    ("statement", "error", "words"),
    [
        ("CREATE TABLE other (a)", StoreNotUsable, "not have the tables"),
        (
            "CREATE TRIGGER odd AFTER INSERT ON preset BEGIN DELETE FROM chat; END",
            StoreNotUsable,
            "not have the tables",
        ),
        ("PRAGMA user_version = 99", StoreTooNew, "newer version"),
    ],
)
def test_a_database_of_something_else_is_refused(
    folder: Path, backup: Path, statement: str, error: type[StoreError], words: str
) -> None:
    with closing(sqlite3.connect(backup, isolation_level=None)) as connection:
        connection.execute(statement)
    with pytest.raises(error, match=words):
        stage(backup, folder)
    assert not list(folder.glob("restore*"))


@pytest.mark.parametrize("content", [b"", b"mine", b"SQLite format 3\0" + b"\0" * 4000])
def test_what_another_program_has_put_there_is_no_staged_backup(
    folder: Path, backup: Path, content: bytes
) -> None:
    (folder / STAGED).write_bytes(content)
    (folder / "before-restore-of-the-bathroom.txt").write_bytes(b"mine")
    (folder / "before-restore-20260101-120000.sqlite").symlink_to(folder / STAGED)
    before = {path: path.read_bytes() for path in folder.iterdir()}
    assert apply_staged(folder) == ""
    discard_copies(folder)
    with pytest.raises(StoreNotUsable, match=r"restore\.sqlite is not Foresight's\. Move it"):
        stage(backup, folder)
    assert {path: path.read_bytes() for path in folder.iterdir()} == before


def test_a_data_folder_that_takes_no_copy_is_a_sentence(backup: Path, tmp_path: Path) -> None:
    with pytest.raises(StoreNotUsable, match=r"cannot be copied into .*nowhere \(No such file"):
        stage(backup, tmp_path / "nowhere")


def test_a_crash_between_two_moves_is_made_good_by_the_next_start(folder: Path, backup: Path) -> None:
    stage(backup, folder)
    (folder / "foresight.sqlite").rename(folder / "before-restore-1.sqlite")
    apply_staged(folder)
    with closing(database_in(folder)) as database:
        assert names(database) == ["from the backup"]
    assert not (folder / STAGED).exists()


def test_what_a_kill_while_a_backup_was_staged_has_left_is_gone_after_the_next_start(
    folder: Path, backup: Path
) -> None:
    started = f"""
import os
from pathlib import Path
from app.database import restoring
restoring._read = lambda source, copy, data_dir: (copy.execute("CREATE TABLE chats (text)"), os._exit(9))
restoring.stage(Path({str(backup)!r}), Path({str(folder)!r}))
"""
    assert subprocess.run([sys.executable, "-c", started], check=False).returncode == 9
    assert list(folder.glob(f"{STAGED}.*"))
    assert apply_staged(folder) == ""
    assert list(folder.glob(f"{STAGED}*")) == []
    with closing(database_in(folder)) as database:
        assert names(database) == ["from today"]


def test_files_that_wait_for_documents_of_the_old_database_go_with_it(folder: Path, backup: Path) -> None:
    (folder / "inbox").mkdir()
    (folder / "inbox" / "7.txt").write_text("of the old document 7")
    stage(backup, folder)
    apply_staged(folder, ("inbox",))
    assert not (folder / "inbox").exists()
    assert next(folder.glob("before-restore-*-inbox/7.txt")).read_text() == "of the old document 7"


def test_what_was_replaced_can_be_deleted_for_good(folder: Path, backup: Path) -> None:
    (folder / "inbox").mkdir()
    stage(backup, folder)
    apply_staged(folder, ("inbox",))
    stage(backup, folder)
    discard_copies(folder)
    assert not [path for path in folder.iterdir() if "restore" in path.name]
    with closing(database_in(folder)) as database:
        assert names(database) == ["from the backup"]
