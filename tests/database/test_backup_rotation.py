"""Automatic backups: when they are made, which are kept, and that nothing lives on in them that was erased."""

import os
import shutil
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from app.chats.chats import Chats
from app.database.backup_rotation import DAY, DailyBackups
from app.database.database import MEMORY, Database, database_in
from app.database.files import BACKUPS, FILE_NAME, backups_in
from app.database.restoring import apply_staged, discard_copies, stage
from app.documents.documents import Documents
from app.errors import StoreBroken, StoreFull, StoreNotUsable
from tests.database.libraries import damage_table, make_library
from tests.database.test_database import put
from tests.support.waiting import new_threads, until

NOW = 1_800_000_000.0


class Clock:
    def __init__(self) -> None:
        self.seconds = NOW

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    with closing(database_in(tmp_path)) as opened:
        chats = Chats(opened)
        chats.add(chats.create(title="Dinner"), "user", "What is for dinner?")
        yield opened


@pytest.fixture
def backups(database: Database, clock: Clock) -> DailyBackups:
    return DailyBackups(database, clock)


def keep(backups: DailyBackups, folder: Path, clock: Clock) -> None:
    """Makes a backup if one is due, whose name and date are those of the clock.

    The file's own date is no date of this clock: a second one may be made, if another second has begun."""
    before = backups_in(folder)
    backups.keep()
    for made in set(backups_in(folder)) - set(before):
        stamp = time.strftime("%Y%m%d-%H%M%S", time.localtime(clock.seconds))
        named = made.rename(made.with_name(f"foresight-{stamp}.sqlite"))
        os.utime(named, (clock.seconds, clock.seconds))


def titles(file: Path) -> list[str]:
    with closing(Database(file)) as database:
        return [chat.title for chat in Chats(database).summaries()]


def test_one_is_made_each_day_and_three_are_kept(backups: DailyBackups, tmp_path: Path, clock: Clock) -> None:
    kept = []
    for hour in range(0, 24 * 6, 6):
        clock.seconds = NOW + hour * 3600
        keep(backups, tmp_path, clock)
        kept.append(backups_in(tmp_path))
    assert [len(found) for found in kept[::4]] == [1, 2, 3, 3, 3, 3]
    assert kept[4] == kept[5] == kept[7], "none between two days"
    assert set(kept[-1]) < set().union(*map(set, kept))
    assert [titles(backup) for backup in kept[-1]] == [["Dinner"]] * 3


def test_a_backup_is_one_whole_private_file_which_is_restored(
    backups: DailyBackups, database: Database, tmp_path: Path, clock: Clock
) -> None:
    keep(backups, tmp_path, clock)
    (made,) = backups_in(tmp_path)
    assert [file.name for file in made.parent.iterdir()] == [made.name]
    assert made.parent.stat().st_mode & 0o077 == 0 or os.name == "nt"
    Chats(database).create(title="Later")
    database.close()
    stage(made, tmp_path)
    apply_staged(tmp_path)
    assert titles(tmp_path / FILE_NAME) == ["Dinner"]


def test_a_clock_that_was_set_back_loses_no_backup(
    backups: DailyBackups, tmp_path: Path, clock: Clock
) -> None:
    keep(backups, tmp_path, clock)
    clock.seconds -= 400 * DAY
    keep(backups, tmp_path, clock)
    assert len(backups_in(tmp_path)) == 2


def test_nothing_is_made_of_a_database_without_chats_and_documents(tmp_path: Path) -> None:
    with closing(database_in(tmp_path)) as database:
        DailyBackups(database).keep()
    assert backups_in(tmp_path) == []


def test_a_damaged_database_does_not_push_out_the_last_good_backup(tmp_path: Path, clock: Clock) -> None:
    file = make_library(tmp_path)
    with closing(database_in(tmp_path)) as database:
        keep(DailyBackups(database, clock), tmp_path, clock)
    good = {backup: backup.read_bytes() for backup in backups_in(tmp_path)}
    damage_table(file, "message_words_data")
    clock.seconds += 2 * DAY
    with closing(database_in(tmp_path)) as database:
        backups = DailyBackups(database, clock)
        with pytest.raises(
            StoreBroken, match=r"which is damaged .*chats rescue.*brings back the newest backup"
        ):
            backups.keep()
        with pytest.raises(StoreBroken, match="No backup was made"):
            database.backup(tmp_path / "own.sqlite")
    assert {backup: backup.read_bytes() for backup in (tmp_path / BACKUPS).iterdir()} == good
    assert not list(tmp_path.glob("own*"))


def test_the_person_is_told_that_the_database_is_damaged(tmp_path: Path) -> None:
    damage_table(make_library(tmp_path), "message_words_data")
    with (
        closing(database_in(tmp_path)) as database,
        closing(DailyBackups(database, first_seconds=0)) as backups,
    ):
        backups.start()
        until(lambda: database.note)
        assert "which is damaged" in database.note


def test_a_damaged_file_that_was_moved_aside_keeps_its_newest_backup(tmp_path: Path, clock: Clock) -> None:
    file = make_library(tmp_path)
    with closing(database_in(tmp_path)) as database:
        keep(DailyBackups(database, clock), tmp_path, clock)
    (of_the_old_one,) = backups_in(tmp_path)
    file.write_bytes(b"no database " * 1_000)
    with closing(database_in(tmp_path)) as database:
        chats = Chats(database)
        chats.add(chats.create(title="New"), "user", "Hello")
        backups = DailyBackups(database, clock)
        moved = next(tmp_path.glob("*.broken-*"))
        stamp = time.strftime("%Y%m%d-%H%M%S", time.localtime(NOW + DAY / 2))
        moved.rename(moved.with_name(f"{FILE_NAME}.broken-{stamp}"))
        for day in range(1, 8):
            clock.seconds = NOW + day * DAY
            keep(backups, tmp_path, clock)
    assert backups_in(tmp_path)[0] == of_the_old_one and len(backups_in(tmp_path)) == 4


def test_what_was_erased_is_in_no_backup_after_the_next_look(
    backups: DailyBackups, database: Database, tmp_path: Path, clock: Clock
) -> None:
    chats = Chats(database)
    place, _ = chats.add(chats.create(title="Mine"), "user", "Very secret words")
    with closing(Documents(database, tmp_path)) as documents:
        collection = documents.create("Notes")
        note = documents.paste(collection, "Hidden treasure map")
        documents.wait()
        for _ in range(3):
            keep(backups, tmp_path, clock)
            clock.seconds += DAY
        assert len(holding(tmp_path, b"secret")) == len(holding(tmp_path, b"treasure")) == 3
        chats.delete(place.chat)
        keep(backups, tmp_path, clock)
        assert holding(tmp_path, b"secret"), "it can still be undone"
        chats.purge()
        documents.remove(note)
        documents.erase()
        documents.wait()
    keep(backups, tmp_path, clock)
    assert holding(tmp_path, b"secret") == holding(tmp_path, b"treasure") == []
    assert [titles(backup) for backup in backups_in(tmp_path)] == [["Dinner"]], "and there is a new one"


def holding(folder: Path, words: bytes) -> list[Path]:
    return [backup for backup in backups_in(folder) if words in backup.read_bytes()]


def test_a_message_and_a_document_that_were_removed_leave_the_backups_too(
    backups: DailyBackups, database: Database, tmp_path: Path, clock: Clock
) -> None:
    chats = Chats(database)
    place, message = chats.add(chats.create(title="Kept"), "user", "Very secret words")
    keep(backups, tmp_path, clock)
    chats.remove(place, message)
    chats.purge()
    with closing(Documents(database, tmp_path)) as documents:
        collection = documents.create("Notes")
        document = documents.paste(collection, "Hidden treasure map", "Note")
        documents.wait()
        keep(backups, tmp_path, clock)
        assert holding(tmp_path, b"Hidden treasure map")
        documents.remove(document)
        documents.erase()
        documents.wait()
        keep(backups, tmp_path, clock)
    assert holding(tmp_path, b"Very secret words") == holding(tmp_path, b"Hidden treasure map") == []


def test_a_damaged_database_keeps_its_backups_even_of_what_was_erased(tmp_path: Path, clock: Clock) -> None:
    file = make_library(tmp_path)
    with closing(database_in(tmp_path)) as database:
        keep(DailyBackups(database, clock), tmp_path, clock)
        Chats(database).delete(1)
        Chats(database).purge()
    damage_table(file, "passage_words_data")
    with closing(database_in(tmp_path)) as database, pytest.raises(StoreBroken):
        DailyBackups(database, clock).keep()
    assert len(backups_in(tmp_path)) == 1


def test_deleting_all_chats_deletes_every_copy_at_once(
    backups: DailyBackups, database: Database, tmp_path: Path
) -> None:
    backups.keep()
    for name in (
        "before-restore-1.sqlite",
        "rescued-1.sqlite",
        f"{FILE_NAME}.broken-1",
        f"{FILE_NAME}.broken-1-wal",
    ):
        shutil.copy(database.path, tmp_path / name)
    Chats(database).delete_all()
    discard_copies(tmp_path)
    files = [file for file in tmp_path.rglob("*") if file.is_file()]
    assert [file for file in files if b"dinner" in file.read_bytes()] == []


def test_backups_of_another_history_stay_after_a_restore(
    backups: DailyBackups, database: Database, tmp_path: Path, clock: Clock
) -> None:
    """Whoever tries which backup is the right one must still have the others."""
    for title in ("One", "Two"):
        chats = Chats(database)
        place, message = chats.add(chats.create(title=title), "user", title)
        keep(backups, tmp_path, clock)
        clock.seconds += DAY
    chats.remove(place, message)
    chats.purge()
    first, second = backups_in(tmp_path)
    shutil.copy(second, tmp_path / "kept.sqlite")
    database.close()
    stage(first, tmp_path)
    apply_staged(tmp_path)
    with closing(database_in(tmp_path)) as restored:
        keep(DailyBackups(restored, clock), tmp_path, clock)
    assert second in backups_in(tmp_path)


def test_private_chats_are_in_no_backup(backups: DailyBackups, tmp_path: Path, clock: Clock) -> None:
    with closing(Database(MEMORY)) as memory:
        Chats(memory).create(title="Very secret")
        keep(backups, tmp_path, clock)
    assert len(backups_in(tmp_path)) == 1 and holding(tmp_path, b"secret") == []


def test_what_a_killed_app_left_is_removed(backups: DailyBackups, tmp_path: Path, clock: Clock) -> None:
    (tmp_path / BACKUPS).mkdir()
    draft = tmp_path / BACKUPS / "foresight-20200101-000000.sqlite.new"
    draft.write_bytes(b"half")
    keep(backups, tmp_path, clock)
    assert not draft.exists() and len(backups_in(tmp_path)) == 1


def test_a_file_in_place_of_the_folder_is_told(backups: DailyBackups, tmp_path: Path) -> None:
    (tmp_path / BACKUPS).write_text("mine")
    with pytest.raises(StoreNotUsable, match=r"cannot be written .*move it away"):
        backups.keep()
    assert (tmp_path / BACKUPS).read_text() == "mine"


def test_others_write_while_a_backup_is_made_which_has_one_state(tmp_path: Path) -> None:
    with closing(database_in(tmp_path)) as database:
        for number in range(600):
            put(database, f"{number:04}" + "x" * 6_000)
        written = []

        def write_more() -> None:
            put(database, f"more {len(written)}")
            written.append(1)

        database.backup(tmp_path / "copy.sqlite", write_more)
    with closing(sqlite3.connect(tmp_path / "copy.sqlite")) as copy:
        assert copy.execute("SELECT count(*) FROM preset").fetchone()[0] == 600
    assert len(written) > 2


def test_closing_ends_a_backup_that_is_being_made(tmp_path: Path) -> None:
    with closing(database_in(tmp_path)) as database:
        chats = Chats(database)
        chats.add(chats.create(), "user", "x" * 8_000_000)
        backups = DailyBackups(database, first_seconds=0)
        before = new_threads([])
        backups.start()
        until(lambda: list(tmp_path.glob(f"{BACKUPS}/*.new")))
        backups.close()
        backups.close()
        assert new_threads(before) == []
    assert list((tmp_path / BACKUPS).iterdir()) == []


def test_a_backup_is_made_before_each_migration(tmp_path: Path) -> None:
    folder = tmp_path / "migrations"
    folder.mkdir()
    scripts = ("CREATE TABLE a (b);", "CREATE TABLE c (d);", "CREATE TABLE e (f);")
    (folder / "0001_step.sql").write_text(scripts[0])
    with closing(Database(tmp_path / FILE_NAME, folder)) as database, database.writing() as connection:
        connection.execute("INSERT INTO a VALUES (7)")
    assert backups_in(tmp_path) == [], "there was nothing before"
    for number, script in enumerate(scripts[1:], start=2):
        (folder / f"000{number}_step.sql").write_text(script)
        Database(tmp_path / FILE_NAME, folder).close()
        Database(tmp_path / FILE_NAME, folder).close()
    assert [backup.name.rpartition("-schema-")[2] for backup in backups_in(tmp_path)] == [
        "1.sqlite",
        "2.sqlite",
    ]
    with closing(sqlite3.connect(backups_in(tmp_path)[0])) as before:
        assert before.execute("SELECT b FROM a").fetchone()[0] == 7
        assert before.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 1


def test_daily_backups_leave_the_last_one_before_a_migration(backups: DailyBackups, tmp_path: Path) -> None:
    backups.keep()
    made = backups_in(tmp_path)[-1]
    for day, name in enumerate(("20200101-000000-schema-1", "20210101-000000-schema-2")):
        copy = shutil.copy(made, made.with_name(f"foresight-{name}.sqlite"))
        os.utime(copy, (NOW - 900 * DAY + day, NOW - 900 * DAY + day))
    os.utime(made, (NOW - 2 * DAY, NOW - 2 * DAY))
    backups.keep()
    assert [backup.name[10:18] for backup in backups_in(tmp_path)].count("20200101") == 0
    assert [backup.name[10:18] for backup in backups_in(tmp_path)].count("20210101") == 1


@pytest.mark.skipif(os.name == "nt", reason="Windows has no limit of a file's size")
def test_without_room_for_the_backup_nothing_is_migrated(tmp_path: Path) -> None:
    folder = tmp_path / "migrations"
    folder.mkdir()
    (folder / "0001_step.sql").write_text("CREATE TABLE a (b);")
    Database(tmp_path / FILE_NAME, folder).close()
    (folder / "0002_step.sql").write_text("CREATE TABLE c (d);")
    (tmp_path / BACKUPS).write_text("in the way")
    with pytest.raises((StoreNotUsable, StoreFull)):
        Database(tmp_path / FILE_NAME, folder)
    with closing(sqlite3.connect(tmp_path / FILE_NAME)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone()[0] == 1
    (tmp_path / BACKUPS).unlink()
    Database(tmp_path / FILE_NAME, folder).close()
    assert len(backups_in(tmp_path)) == 1
