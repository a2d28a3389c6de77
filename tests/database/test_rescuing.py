"""Rescuing: what is saved of a database with damaged pages, without its header, its end, or its WAL."""

import errno
import os
import re
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from app.chats.chat_table import CUT, mend_chats
from app.chats.chats import Chats
from app.database.database import Database, database_in
from app.database.files import move_aside
from app.database.rescuing import Unread, rescue
from app.database.restoring import apply_staged, stage
from app.documents.documents import Documents
from app.documents.indexing import mend_documents
from app.errors import StoreNotUsable
from tests.database.libraries import CHATS, LONG, MESSAGES, PAGE, WHALES, damage, damage_table, make_library

TABLES = (
    "chat", "message", "preset", "folder", "draft", "collection", "document", "document_text", "passage",
)  # fmt: skip
LEAF = 0x0D
INTERIOR, INDEX_INTERIOR, INDEX_LEAF = 0x05, 0x02, 0x0A
WHOLE = Unread(0, 0, True)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_library(tmp_path_factory.mktemp("sound"))


@pytest.fixture
def file(sound: Path, tmp_path: Path) -> Path:
    return shutil.copy(sound, tmp_path / "damaged.sqlite")


def save(file: Path) -> tuple[Path, Unread]:
    out = file.with_name("saved.sqlite")
    return out, rescue(file, out, (mend_chats, mend_documents))


def rows(file: Path) -> dict[str, set[tuple[object, ...]]]:
    with closing(sqlite3.connect(file)) as connection:
        return {table: set(connection.execute(f"SELECT * FROM {table}")) for table in TABLES}


def ids(file: Path, table: str) -> set[int]:
    with closing(sqlite3.connect(file)) as connection:
        return {row[0] for row in connection.execute(f"SELECT rowid FROM {table}")}


def table_of(file: Path) -> dict[int, str]:
    """Which pages are which table's or index's, by SQLite's own account."""
    with closing(sqlite3.connect(file)) as connection:
        try:
            return dict(connection.execute("SELECT pageno, name FROM dbstat"))
        except sqlite3.OperationalError:
            pytest.skip("this SQLite does not tell which table a page is of")


def test_all_of_a_sound_database_is_saved(file: Path, sound: Path) -> None:
    out, unread = save(file)
    before, after = rows(sound), rows(out)
    assert (unread, len(after.pop("document"))) == (WHOLE, 2)  # they are indexed anew
    assert after == {table: before[table] for table in after}
    with closing(Database(out)) as database:
        assert database.damage() == ""
        assert len(Chats(database).search("words to fill")) == CHATS


@pytest.mark.parametrize("is_every", [False, pytest.param(True, marks=pytest.mark.thorough)])
def test_a_damaged_page_costs_the_rows_on_it_and_no_others(
    sound: Path, tmp_path: Path, is_every: bool
) -> None:
    content, owners = sound.read_bytes(), table_of(sound)
    kinds = {page: content[(page - 1) * PAGE] for page in owners}
    first_of = {(owners[page], kinds[page]): page for page in sorted(owners, reverse=True)}
    lost: dict[str, int] = {"message": 0, "document_text": 0}
    for page in sorted(owners) if is_every else sorted(first_of.values()):
        if kinds[page] not in (LEAF, INTERIOR, INDEX_INTERIOR, INDEX_LEAF) and page > 1:
            continue  # the rest of a long row: below
        file = shutil.copy(sound, tmp_path / "damaged.sqlite")
        damage(file, page)
        out, unread = save(file)
        for table in lost:
            if gone := ids(sound, table) - ids(out, table):
                assert (kinds[page], owners[page]) == (LEAF, table)
                assert len(gone) <= 8 and unread.rows == len(gone)
                lost[table] += len(gone)
        assert len(ids(out, "chat")) == CHATS, "a chat without its row is found by its messages"
        if is_every:
            stage(out, tmp_path)
    assert not is_every or lost == {"message": CHATS * MESSAGES + 1, "document_text": 2}, (
        "each was on one page"
    )


@pytest.mark.parametrize("filling", [b"\0", b"\xff", b"junk"])
def test_without_the_first_page_all_chats_and_documents_are_saved(
    file: Path, sound: Path, filling: bytes
) -> None:
    damage(file, 1, filling)
    out, unread = save(file)
    before, after = rows(sound), rows(out)
    for table in ("chat", "message", "preset", "folder", "collection", "document_text", "passage"):
        assert after[table] == before[table]
    assert not unread.is_exact


@pytest.mark.parametrize("at", [0, 16, 18, 20, 21, 24, 28, 36, 44, 47, 52, 56, 60, 92])
def test_a_field_of_the_header_that_is_wrong_costs_nothing(file: Path, sound: Path, at: int) -> None:
    with file.open("r+b") as opened:
        opened.seek(at)
        opened.write(b"\xfe\xdc\xba\x98"[: 2 if at == 16 else 4])
    out, _ = save(file)
    for table in ("chat", "message", "document_text"):
        assert rows(out)[table] == rows(sound)[table]


@pytest.mark.parametrize("size", [5 * PAGE, 30 * PAGE, 30 * PAGE + 100, -1, -PAGE])
def test_a_file_that_was_cut_gives_what_is_left_of_it(file: Path, size: int) -> None:
    content = file.read_bytes()
    file.write_bytes(content[:size])
    out, _ = save(file)
    stage(out, file.parent)
    assert ids(out, "chat") | ids(out, "document")


def test_several_damaged_pages_and_tables_without_their_roots(file: Path, sound: Path) -> None:
    for root in ("message", "message_tree", "document_text", "message_words_data", "sqlite_sequence"):
        damage_table(file, root)
    out, unread = save(file)
    assert len(ids(sound, "message") - ids(out, "message")) <= 8
    assert not unread.is_exact
    with closing(Database(out)) as database:
        assert database.damage() == ""


def test_what_is_only_in_the_wal_is_saved_and_nothing_is_written_beside_it(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with closing(database_in(data)) as database:
        Chats(database).create(title="Only in the WAL")
        (tmp_path / "copy").mkdir()
        for one in data.iterdir():
            shutil.copy(one, tmp_path / "copy")
    copied = tmp_path / "copy" / "foresight.sqlite"
    copied.with_name("foresight.sqlite-shm").unlink()
    damage(copied, 1)
    before = {one.name: (one.read_bytes(), one.stat().st_mtime_ns) for one in copied.parent.iterdir()}
    out = tmp_path / "saved.sqlite"
    rescue(copied, out, (mend_chats, mend_documents))
    with closing(Database(out)) as database:
        assert [chat.title for chat in Chats(database).summaries()] == ["Only in the WAL"]
    assert before == {one.name: (one.read_bytes(), one.stat().st_mtime_ns) for one in copied.parent.iterdir()}


def test_a_wal_whose_file_is_gone_still_gives_what_it_has(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with closing(database_in(data)) as database:
        Chats(database).create(title="In the WAL")
        wal = (data / "foresight.sqlite-wal").read_bytes()
    for one in data.iterdir():
        one.unlink()
    (data / "foresight.sqlite-wal").write_bytes(wal)
    kept = move_aside(data / "foresight.sqlite")
    out = tmp_path / "saved.sqlite"
    rescue(kept, out, (mend_chats, mend_documents))
    with closing(Database(out)) as database:
        assert [chat.title for chat in Chats(database).summaries()] == ["In the WAL"]


def overflow_pages(file: Path, table: str) -> list[int]:
    with closing(sqlite3.connect(file)) as connection:
        query = "SELECT pageno FROM dbstat WHERE name = ? AND pagetype = 'overflow' ORDER BY path"
        return [row[0] for row in connection.execute(query, (table,))]


def test_of_a_long_text_the_beginning_is_saved(file: Path) -> None:
    table_of(file)
    damage(file, overflow_pages(file, "message")[3])
    damage(file, overflow_pages(file, "document_text")[2])
    out, unread = save(file)
    assert unread == Unread(0, 2, True)
    with closing(Database(out)) as database:
        place = Chats(database).summaries()[0]
        last = Chats(database).thread(place.id).messages[-1]
        assert LONG.startswith(last.text) and len(last.text) > 2 * PAGE
        assert last.content.note == CUT
        with closing(Documents(database, file.parent)) as documents:
            documents.wait()
            whales = documents.documents(documents.collections()[0].id)[0]
            assert whales.state == "ready" and "could not be read" in whales.note
            assert WHALES.startswith(documents.text(whales.id)) and whales.characters > PAGE


def test_citations_find_their_passages_after_a_rescue(file: Path, sound: Path) -> None:
    damage_table(file, "passage_words_data")
    out, _ = save(file)
    with closing(Database(out)) as database, closing(Documents(database, file.parent)) as documents:
        documents.wait()
        found = documents.search([1], "seals in the sun")
        assert found and rows(out)["passage"] == rows(sound)["passage"]
        assert documents.problem == ""


@pytest.mark.parametrize("is_lost", [False, True])
def test_an_older_version_of_a_document_stays_one_unless_the_newer_one_is_lost(
    tmp_path: Path, is_lost: bool
) -> None:
    file = make_library(tmp_path)
    with closing(database_in(tmp_path)) as database, closing(Documents(database, tmp_path)) as documents:
        newer = documents.paste(1, "Seals like to lie in the sun and on the ice.", "Seals")
        documents.wait()
        assert [one.title for one in documents.documents(1)].count("Seals") == 1
    if is_lost:
        with closing(sqlite3.connect(file)) as connection, connection:
            connection.execute("DELETE FROM document WHERE id = ?", (newer,))
            connection.execute("DELETE FROM document_text WHERE document = ?", (newer,))
    out, _ = save(file)
    with closing(Database(out)) as database, closing(Documents(database, out.parent)) as documents:
        documents.wait()
        assert database.damage() == ""
        seals = [one.id for one in documents.documents(1) if one.title == "Seals"]
        assert len(seals) == 1 and ("ice" in documents.text(seals[0])) == (not is_lost)


def test_messages_without_their_parent_follow_the_one_before(file: Path) -> None:
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("DELETE FROM message WHERE id = 3")
        connection.execute("UPDATE chat SET shown = 999 WHERE id = 1")
    out, _ = save(file)
    with closing(Database(out)) as database:
        shown = [message.id for message in Chats(database).thread(1).messages]
    assert shown == [1, 2, 4, 5, 6]


@pytest.mark.parametrize("left", [b"no database at all " * 1_000, b"Hello.\n", b"", None])
def test_where_nothing_is_left_nothing_is_written(file: Path, left: bytes | None) -> None:
    if left is None:
        file.unlink()
    else:
        file.write_bytes(left)
    with pytest.raises(StoreNotUsable, match=r"^(Nothing in|There is no file) .*damaged\.sqlite"):
        save(file)
    assert not file.with_name("saved.sqlite").exists()


def test_the_damaged_file_is_never_the_target(file: Path) -> None:
    before = file.read_bytes()
    with pytest.raises(StoreNotUsable, match="is the database itself"):
        rescue(file, file, ())
    assert file.read_bytes() == before


def test_a_file_that_cannot_be_read_is_named_and_not_the_target(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = Path.open

    def refusing(path: Path, mode: str = "r", *args: Any, **options: Any) -> Any:
        if path == file:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return opened(path, mode, *args, **options)

    monkeypatch.setattr(Path, "open", refusing)
    target = tmp_path / "saved.sqlite"
    with pytest.raises(StoreNotUsable, match=re.escape(f"{file} cannot be read")) as refused:
        rescue(file, target, ())
    assert str(target) not in str(refused.value) and not target.exists()


def test_what_was_saved_is_restored(file: Path, tmp_path: Path) -> None:
    damage_table(file, "chat")
    out, _ = save(file)
    data = tmp_path / "data"
    database_in(data).close()
    stage(out, data)
    apply_staged(data)
    with closing(database_in(data)) as database:
        titles = {chat.title for chat in Chats(database).summaries()}
    assert len(titles) == CHATS and "Message 0 of chat 3" in titles
