"""The SQLite file: transactions, copies, damage, full disks, and other programs."""

import sqlite3
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from app.database.database import Database, require_sqlite
from app.errors import StoreFull, StoreNotUsable, StoreTooNew, StoreUnsupported
from tests.support.children import run_python

FILL_A_FULL_DISK = """
import resource, sys
from pathlib import Path
from app.database.database import Database
from app.errors import StoreFull
database = Database(Path(sys.argv[1]))
resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, 400_000))
try:
    for _ in range(100):
        with database.writing() as connection:
            connection.execute("INSERT INTO preset (name) VALUES (hex(randomblob(5000)))")
        print("kept", flush=True)
except StoreFull as error:
    sys.exit(str(error))
"""


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    with closing(Database(tmp_path / "foresight.sqlite")) as opened:
        yield opened


def put(database: Database, name: str) -> None:
    with database.writing() as connection:
        connection.execute("INSERT INTO preset (name) VALUES (?)", (name,))


def names(database: Database) -> list[str]:
    with database.reading() as connection:
        return [row["name"] for row in connection.execute("SELECT name FROM preset ORDER BY name")]


def test_what_a_transaction_wrote_is_there_and_what_a_failed_one_wrote_is_not(database: Database) -> None:
    put(database, "kept")
    with pytest.raises(KeyError), database.writing() as connection:
        connection.execute("INSERT INTO preset (name) VALUES ('lost')")
        raise KeyError
    assert names(database) == ["kept"]


def test_another_process_reads_what_was_committed_while_this_one_has_it_open(database: Database) -> None:
    put(database, "kept")
    with closing(Database(database.path)) as other:
        assert names(other) == ["kept"]
        put(other, "also")
    assert names(database) == ["also", "kept"]


def test_a_reading_sees_one_state_whatever_another_process_writes(database: Database) -> None:
    with closing(Database(database.path)) as other, database.reading() as connection:
        before = connection.execute("SELECT count(*) FROM preset").fetchone()[0]
        put(other, "new")
        assert connection.execute("SELECT count(*) FROM preset").fetchone()[0] == before
    assert names(database) == ["new"]


def test_what_another_process_commits_is_a_change_too(database: Database) -> None:
    seen = [database.changes]
    put(database, "here")
    seen.append(database.changes)
    with closing(Database(database.path)) as other:
        put(other, "there")
        seen.append(database.changes)
    assert seen == sorted(set(seen))
    assert database.changes == seen[-1]


def test_changes_are_counted_while_others_write(database: Database) -> None:
    wrong: list[object] = []

    def count() -> None:
        before = 0
        for _ in range(300):
            now = database.changes
            if now < before:
                wrong.append((before, now))
            before = now

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for number in range(30):
        put(database, str(number))
    for thread in threads:
        thread.join()
    assert wrong == []


def test_threads_write_one_after_the_other(database: Database) -> None:
    threads = [
        threading.Thread(target=lambda part=part: [put(database, f"{part}-{at}") for at in range(50)])
        for part in "ab"
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(names(database)) == 100


def test_a_commit_is_on_the_disk_in_wal_mode(database: Database) -> None:
    with database.reading() as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone()[0] == "wal"
        assert connection.execute("PRAGMA synchronous").fetchone()[0] == 2  # FULL
        assert connection.execute("PRAGMA foreign_keys").fetchone()[0] == 1


def test_closing_twice_leaves_one_file(database: Database) -> None:
    put(database, "kept")
    database.close()
    database.close()
    assert [path.name for path in database.path.parent.iterdir()] == ["foresight.sqlite"]


def test_a_database_in_memory_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with closing(Database(":memory:")) as database:
        put(database, "kept")
        assert (names(database), database.damage(), database.size() > 0) == (["kept"], "", True)
    assert list(tmp_path.iterdir()) == []


def test_a_backup_is_one_whole_file_and_replaces_an_older_one(database: Database, tmp_path: Path) -> None:
    target = tmp_path / "backups.sqlite"
    for name in ("first", "second"):
        put(database, name)
        database.backup(target)
    with closing(Database(target)) as copy:
        assert (names(copy), copy.damage()) == (["first", "second"], "")
    assert sorted(path.name for path in tmp_path.glob("backups*")) == ["backups.sqlite"]


def test_a_database_in_memory_can_be_kept(tmp_path: Path) -> None:
    with closing(Database(":memory:")) as database:
        put(database, "kept")
        database.backup(tmp_path / "copy.sqlite")
    with closing(Database(tmp_path / "copy.sqlite")) as copy:
        assert names(copy) == ["kept"]


@pytest.mark.parametrize("place", ["nowhere/backup.sqlite", "foresight.sqlite", "."])
def test_a_backup_that_cannot_be_written_is_a_sentence(
    database: Database, tmp_path: Path, place: str
) -> None:
    with pytest.raises(StoreNotUsable, match=r"Choose a(nother)? file"):
        database.backup(tmp_path / place)
    assert database.damage() == ""


@pytest.mark.parametrize("content", [b"not a database" * 999, b"\0" * 8192])
def test_a_file_that_is_no_database_is_kept_beside_and_a_new_one_begun(
    tmp_path: Path, content: bytes
) -> None:
    path = tmp_path / "foresight.sqlite"
    path.write_bytes(content)
    path.with_name("foresight.sqlite-wal").write_bytes(b"of the broken one")
    with closing(Database(path)) as database:
        put(database, "new")
        assert "was kept as" in database.note
        assert database.damage() == ""
    kept = next(path for path in tmp_path.glob("*.broken-*") if not path.name.endswith("-wal"))
    assert kept.read_bytes() == content
    assert str(kept) in database.note
    with closing(Database(path)) as again:
        assert (names(again), again.note) == (["new"], "")


def test_a_damaged_page_is_told_by_the_check(database: Database) -> None:
    with database.writing() as connection:
        connection.executemany(
            "INSERT INTO preset (name) VALUES (?)", [(f"{at:0200}",) for at in range(2000)]
        )
    database.close()
    content = bytearray(database.path.read_bytes())
    middle = len(content) // 2 // 4096 * 4096
    content[middle : middle + 4096] = b"\xff" * 4096
    database.path.write_bytes(content)
    with closing(Database(database.path)) as damaged:
        assert "is damaged" in damaged.damage()


def test_a_search_index_that_misses_a_word_is_told_by_the_check(database: Database) -> None:
    with database.writing() as connection:
        connection.execute("INSERT INTO message_words (text) VALUES ('some words')")
        connection.execute("UPDATE message_words_content SET c0 = 'other words'")
    assert "the search index message_words" in database.damage()


def test_a_database_that_another_program_holds_is_not_called_damaged(database: Database) -> None:
    checked = Database(database.path, busy_seconds=0.05)
    with (
        closing(checked),
        database.writing(),
        pytest.raises(StoreNotUsable, match="Another program has locked"),
    ):
        checked.damage()
    assert database.damage() == ""


def test_a_database_of_a_newer_app_is_refused_and_untouched(database: Database) -> None:
    with database.writing() as connection:
        connection.execute("PRAGMA user_version = 9999")
    database.close()
    before = database.path.read_bytes()
    with pytest.raises(StoreTooNew, match="Update Foresight"):
        Database(database.path)
    assert database.path.read_bytes() == before


@pytest.mark.parametrize(
    ("version", "modules"), [((3, 31, 1), {"fts5"}), ((3, 45, 0), {"fts3"}), ((3, 45, 0), set())]
)
def test_a_sqlite_without_what_is_needed_is_refused(version: tuple[int, ...], modules: set[str]) -> None:
    with pytest.raises(StoreUnsupported, match="FTS5, and this Python has 3"):
        require_sqlite(version, modules)


def test_a_full_disk_is_a_sentence_and_what_was_kept_stays(tmp_path: Path) -> None:
    path = tmp_path / "foresight.sqlite"
    child = run_python(FILL_A_FULL_DISK, path)
    assert (child.returncode, "Free some disk space" in child.stderr) == (1, True)
    with closing(Database(path)) as database:
        assert len(names(database)) == child.stdout.count("kept") > 0
        assert database.damage() == ""


def test_after_a_full_disk_writing_goes_on(database: Database) -> None:
    with database.reading() as connection:
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(StoreFull, match="Free some disk space"):
        put(database, "x" * 100_000)
    with database.reading() as connection:
        connection.execute("PRAGMA max_page_count = 1000000")
    put(database, "kept")
    assert names(database) == ["kept"]


def test_a_folder_that_cannot_be_made_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StoreNotUsable, match="--data-dir"):
        Database(tmp_path / "file" / "foresight.sqlite")


def test_a_folder_in_place_of_the_file_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(StoreNotUsable, match="is a folder"):
        Database(tmp_path)


def test_mistakes_of_ours_stay_exceptions(database: Database) -> None:
    with pytest.raises(sqlite3.OperationalError, match="no such table"), database.reading() as connection:
        connection.execute("SELECT * FROM no_table")


@pytest.mark.skipif(sys.platform == "win32", reason="Windows keeps open files where they are")
@pytest.mark.parametrize("is_new_file", [False, True])
def test_nothing_is_written_into_a_file_that_was_deleted_and_all_of_it_can_still_be_saved(
    database: Database, tmp_path: Path, is_new_file: bool
) -> None:
    put(database, "kept")
    for file in tmp_path.iterdir():
        file.unlink()
    if is_new_file:
        Database(database.path).close()
    with pytest.raises(StoreNotUsable, match=r"no longer there\. Put its folder back, or save all chats"):
        put(database, "lost")
    assert names(database) == ["kept"]
    database.backup(tmp_path / "saved.sqlite")
    with closing(Database(tmp_path / "saved.sqlite")) as saved:
        assert names(saved) == ["kept"]


def test_a_folder_that_is_put_back_is_written_again(database: Database, tmp_path: Path) -> None:
    elsewhere = tmp_path.with_name("elsewhere")
    tmp_path.rename(elsewhere)
    with pytest.raises(StoreNotUsable, match="no longer there"):
        put(database, "lost")
    elsewhere.rename(tmp_path)
    put(database, "kept")
    assert names(database) == ["kept"]
