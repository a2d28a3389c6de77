"""`python run.py chats …` as a person types it."""

import json
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from app.chats.chats import Chats
from app.database.data_folder import DataFolder
from app.database.database import Database, database_in
from tests.chats.samples import FINISHED, answer
from tests.commands.typed import Done, typed
from tests.database.libraries import damage, damage_table, make_library


def run(*arguments: str | Path) -> Done:
    return typed("chats", *arguments)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def chats(folder: Path) -> Iterator[Chats]:
    """The app has them open all the while."""
    with closing(database_in(folder)) as database:
        chats = Chats(database)
        place, reply = chats.ask(chats.create(folder="Work", title="Eggs"), "How long do eggs boil?")
        chats.write(reply, FINISHED)
        chats.pin(place.chat, True)
        answer(chats, chats.create(), "Why is it?", "So.")
        yield chats


@pytest.mark.usefixtures("chats")
def test_chats_are_listed_and_found_while_the_app_has_them_open(folder: Path) -> None:
    listed = run("list", "--data-dir", folder).stdout
    assert "pinned" in listed.splitlines()[0] and "Eggs" in listed.splitlines()[0]
    assert "2 chats" in listed
    found = run("search", "eggs", "boi", "--data-dir", folder, "--json").stdout
    assert json.loads(found)["found"][0]["excerpt"] == "How long do \x02eggs\x03 \x02boi\x03l?"
    assert "How long do eggs boil?" in run("search", "boil", "--data-dir", folder).stdout
    assert "No chat has" in run("search", "nowhere", "--data-dir", folder).stdout
    assert len(json.loads(run("list", "--data-dir", folder, "--json").stdout)["chats"]) == 2


def test_what_was_exported_comes_in_while_the_app_has_them_open(
    chats: Chats, folder: Path, tmp_path: Path
) -> None:
    file = tmp_path / "chats.json"
    assert run("export", "--data-dir", folder, "--out", file).returncode == 0
    already = run("import", file, "--data-dir", folder).stdout
    assert already == "0 chats imported. 2 chats were here already.\n"
    for line in chats.summaries():
        chats.delete(line.id)
    assert run("import", file, "--data-dir", folder).stdout == "2 chats imported.\n"
    eggs = next(line for line in chats.summaries() if line.title == "Eggs")
    one = run("export", str(eggs.id), "--data-dir", folder).stdout
    assert [chat["title"] for chat in json.loads(one)["chats"]] == ["Eggs"]
    assert run("export", str(eggs.id), "--markdown", "--data-dir", folder).stdout.startswith(
        "# Eggs\n\n## You\n"
    )


def test_a_backup_made_while_the_app_has_them_open_is_whole(
    chats: Chats, folder: Path, tmp_path: Path
) -> None:
    file = tmp_path / "copy.sqlite"
    seen = json.loads(run("backup", file, "--data-dir", folder, "--json").stdout)
    assert seen == {"file": str(file), "size": file.stat().st_size}
    with closing(Database(file)) as copy:
        assert Chats(copy).summaries() == chats.summaries()


@pytest.mark.parametrize("command", [("export", "--out"), ("export", "--markdown", "--out"), ("backup",)])
def test_a_file_that_is_there_is_replaced_only_where_that_is_asked_for(
    folder: Path, tmp_path: Path, command: tuple[str, ...]
) -> None:
    file = tmp_path / "thesis.odt"
    file.write_text("ten years of work")
    refused = run(*command, file, "--data-dir", folder)
    assert (refused.returncode, refused.stderr) == (
        2,
        f"Error: {file} is there already. Choose another name, or replace it with --overwrite.\n",
    )
    assert file.read_text() == "ten years of work"
    assert run(*command, file, "--overwrite", "--data-dir", folder).returncode == 0
    assert b"ten years" not in file.read_bytes()


def test_a_backup_is_restored_once_the_app_is_closed(folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "copy.sqlite"
    with closing(database_in(folder)) as database:
        answer(Chats(database), Chats(database).create(title="Kept"), "Why?", "So.")
    told = run("backup", file, "--data-dir", folder).stdout
    assert f"chats restore {file} --data-dir {folder}` brings them back." in told
    with closing(database_in(folder)) as database:
        Chats(database).delete_all()
    in_use = DataFolder(folder)
    in_use.hold()
    refused = run("restore", file, "--data-dir", folder)
    in_use.release()
    assert (refused.returncode, "already running" in refused.stderr) == (1, True)
    assert "What was here before is kept as" in run("restore", file, "--data-dir", folder).stdout
    with closing(database_in(folder)) as database:
        assert [chat.title for chat in Chats(database).summaries()] == ["Kept"]


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (("restore", "run.py"), 1, "is not a whole backup of Foresight"),
        (("restore", "nowhere.sqlite"), 1, "There is no file nowhere.sqlite."),
        (("export", "999"), 1, "no longer there"),
        (("export", "--out", "nowhere/x.json"), 2, "Choose another file"),
        (("import", "nowhere.json"), 2, "cannot be read"),
        (("import", "run.py"), 1, "Choose a file that Foresight or another chat app exported"),
        (("backup", "nowhere/x.sqlite"), 1, "Choose another file"),
        (("backup", "."), 1, "Choose a file in it"),
    ],
)
def test_what_cannot_be_done_is_a_sentence(
    folder: Path, arguments: tuple[str, ...], code: int, sentence: str
) -> None:
    done = run(*arguments, "--data-dir", folder)
    assert (done.returncode, done.stdout) == (code, "")
    assert done.stderr.startswith("Error: ") and sentence in done.stderr


def test_a_rescue_tells_what_it_saved_and_writes_nothing_into_the_damaged_file(folder: Path) -> None:
    damaged = make_library(folder)
    damage_table(damaged, "message")
    before = damaged.read_bytes()
    told = run("rescue", "--data-dir", folder)
    assert told.returncode == 0, told.stderr
    saved = next(folder.glob("rescued-*.sqlite"))
    assert told.stdout.startswith("Saved 8 chats, 49 messages, 2 documents to ") and str(saved) in told.stdout
    assert "Nothing is missing. `python run.py chats restore" in told.stdout
    assert damaged.read_bytes() == before
    seen = json.loads(run("rescue", damaged, "--out", folder / "x.sqlite", "--json").stdout)
    assert (seen["message"], seen["unread"]) == (49, {"rows": 0, "cut": 0, "is_exact": True})


def test_a_rescue_tells_how_many_rows_are_missing(folder: Path) -> None:
    damaged = make_library(folder)
    with closing(sqlite3.connect(damaged)) as connection:
        leaf = connection.execute(
            "SELECT pageno FROM dbstat WHERE name = 'message' AND pagetype = 'leaf' LIMIT 1"
        ).fetchone()[0]
    damage(damaged, leaf)
    assert re.search(r"\. \d rows could not be read\. `", run("rescue", "--data-dir", folder).stdout)
