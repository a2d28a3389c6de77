"""The data folder: it is the app's own, nothing else is touched, and one instance holds it at a time."""

import os
import shutil
import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from typer.core import TyperArgument, TyperGroup
from typer.main import get_command
from typer.testing import CliRunner

from app.database.data_folder import MARKER, DataFolder, data_dir_or_default, optional_data_dir
from app.database.database import Database
from app.errors import DataFolderInUse, DataFolderRefused
from app.main import cli
from app.settings import assets_dir
from tests.support.children import another_instance, run_python

POSIX = pytest.mark.skipif(os.name != "posix", reason="on Windows the profile protects the folder")


START_ON_A_FULL_DISK = """
import resource, sys
from pathlib import Path
from typing import get_args
from app.database.data_folder import DataFolder
resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
folder = DataFolder(Path(sys.argv[1]))
folder.hold()
folder.announce("http://127.0.0.1:1")
folder.release()
"""


ADDRESS = "http://127.0.0.1:7860"
CLAIM_ON_A_FULL_DISK = """
import resource, sys
from pathlib import Path
from app.database.data_folder import data_dir_or_default
from app.errors import DataFolderRefused
resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
try:
    data_dir_or_default(Path(sys.argv[1]))
except DataFolderRefused as error:
    sys.exit(str(error))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows cannot limit the size of files")
def test_a_full_disk_does_not_keep_the_app_from_starting(tmp_path: Path) -> None:
    child = run_python(START_ON_A_FULL_DISK, tmp_path)
    assert (child.returncode, child.stderr) == (0, "")


def test_a_second_instance_is_told_where_the_first_one_runs(tmp_path: Path) -> None:
    with (
        another_instance(tmp_path, ADDRESS),
        pytest.raises(DataFolderInUse, match=r"already running on .* \(at http://127\.0\.0\.1:7860\)"),
    ):
        DataFolder(tmp_path).hold()


def test_the_folder_is_free_when_its_holder_is_killed(tmp_path: Path) -> None:
    with another_instance(tmp_path, ADDRESS) as holder:
        holder.kill()
        holder.wait()
        folder = DataFolder(tmp_path)
        folder.hold()
    try:
        assert not (tmp_path / "in-use.address").exists(), "the dead instance's address must not be named"
    finally:
        folder.release()


@POSIX
def test_the_data_folder_and_what_the_app_made_in_it_is_its_owners_alone(tmp_path: Path) -> None:
    outside, place = tmp_path / "outside", tmp_path / "data"
    outside.write_text("Everybody's.")
    (place / "steps").mkdir(parents=True)
    for name in ("settings.json", "foresight.sqlite-wal", "notes.txt"):
        (place / name).touch(0o644)
    (place / "api-key").symlink_to(outside)
    (place / "logs").symlink_to(tmp_path)
    for path, mode in (
        (outside, 0o644),
        (place, 0o777),
        (place / "steps", 0o755),
        (place / "notes.txt", 0o664),
    ):
        path.chmod(mode)
    folder = DataFolder(place)
    folder.hold()
    folder.announce("http://127.0.0.1:1/?key=secret")
    modes = {
        path.name: path.lstat().st_mode & 0o777 for path in (place, *place.iterdir()) if not path.is_symlink()
    }
    folder.release()
    assert modes == {
        "data": 0o700, "steps": 0o700, "settings.json": 0o600, "foresight.sqlite-wal": 0o600,
        "in-use.lock": 0o600, "in-use.address": 0o600, "notes.txt": 0o664,
    }  # fmt: skip
    assert outside.stat().st_mode & 0o777 == 0o644, "what a link leads to is not the folder's"


@POSIX
def test_rights_that_cannot_be_changed_are_told_and_the_app_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    tmp_path.chmod(0o755)
    monkeypatch.setattr(Path, "chmod", refuse)
    folder = DataFolder(tmp_path)
    folder.hold()
    folder.release()
    assert "Other users of this machine can read the data folder" in caplog.text


def test_a_released_folder_can_be_held_again(tmp_path: Path) -> None:
    folder = DataFolder(tmp_path)
    for _ in range(2):
        folder.hold()
        folder.announce("http://127.0.0.1:1")
        folder.release()
    with another_instance(tmp_path, ADDRESS):
        assert (tmp_path / "in-use.address").exists()


LEFT_BEHIND = {
    "of a process that is another one now": ("1", "http://127.0.0.1:1"),
    "cut short": ("", "htt"),
    "no text": ("\0\xff", "\0\xff"),
    "empty": ("", ""),
}


@pytest.mark.parametrize(("lock", "address"), LEFT_BEHIND.values(), ids=LEFT_BEHIND.keys())
def test_what_a_dead_instance_left_keeps_nobody_from_starting(
    tmp_path: Path, lock: str, address: str
) -> None:
    (tmp_path / "in-use.lock").write_bytes(lock.encode("latin-1"))
    (tmp_path / "in-use.address").write_bytes(address.encode("latin-1"))
    folder = DataFolder(tmp_path)
    assert not folder.is_held()
    folder.hold()
    try:
        assert folder.running_at() == "", "the dead instance's address must not be named"
    finally:
        folder.release()


@pytest.mark.parametrize("content", [b"\xff\xfe\0", b"htt", b"http://[::1", b"http://127.0.0.1:no"])
def test_an_address_that_makes_no_sense_is_none(tmp_path: Path, content: bytes) -> None:
    with another_instance(tmp_path, ADDRESS):
        (tmp_path / "in-use.address").write_bytes(content)
        with pytest.raises(DataFolderInUse, match=r"already running on .*Use that window") as seen:
            DataFolder(tmp_path).hold()
    assert "(at" not in str(seen.value)


def test_a_folder_that_is_gone_is_let_go_of(tmp_path: Path) -> None:
    folder = DataFolder(tmp_path / "data")
    folder.hold()
    folder.announce("http://127.0.0.1:1")
    shutil.rmtree(tmp_path / "data")
    (tmp_path / "data").write_text("in the way", encoding="utf-8")
    folder.release()


def snapshot(folder: Path) -> dict[str, tuple[int, int, bytes]]:
    """What lies in a folder, with its rights, times and bytes."""
    return {
        path.relative_to(folder).as_posix(): (
            path.lstat().st_mode,
            path.lstat().st_mtime_ns,
            path.read_bytes() if path.is_file() else b"",
        )
        for path in (folder, *folder.rglob("*"))
    }


def put(file: Path, content: str | bytes = "mine") -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content.encode() if isinstance(content, str) else content)


def other_database(file: Path, *tables: str, mode: str = "delete") -> None:
    with closing(sqlite3.connect(file)) as connection:
        connection.execute(f"PRAGMA journal_mode = {mode}")
        for table in tables:
            connection.execute(f"CREATE TABLE {table} (id)")
        connection.execute("PRAGMA user_version = 7")
        connection.commit()


FOREIGN: dict[str, Callable[[Path], object]] = {
    "a file": lambda at: put(at / "thesis.tex"),
    "an empty folder": lambda at: (at / "photos").mkdir(),
    "a hidden file": lambda at: put(at / ".env"),
    "a link": lambda at: (at / "logs").symlink_to(at.parent),
    "what lies where uploads lie": lambda at: put(at / "gradio" / ("a" * 64) / "model.py"),
    "what lies where documents wait": lambda at: put(at / "documents-inbox" / "7.pdf"),
    "what lies where measurements lie": lambda at: put(
        at / "steps" / "one.json", '{"subject": {}, "note": 1}'
    ),
    "what lies where downloads lie": lambda at: put(at / "downloads" / "one.json", '{"repo": "mine"}'),
    "a staged backup": lambda at: other_database(at / "restore.sqlite", "chat", "message"),
    "another database": lambda at: other_database(at / "foresight.sqlite", "chat", "message", "account"),
    "another database in use": lambda at: other_database(at / "foresight.sqlite", "weather", mode="wal"),
    "no database": lambda at: put(at / "foresight.sqlite", b"\0" * 5000),
    "other settings": lambda at: put(
        at / "settings.json", '{"model": {"name": "T"}, "options": {"wheels": 4}}'
    ),
    "settings of any depth": lambda at: put(at / "settings.json", "[" * 100_000),
    "another key": lambda at: put(at / "api-key", "sk-proj-1"),
    "other servers": lambda at: put(at / "servers.json", "[]"),
    "a marker of another kind": lambda at: put(at / MARKER, "mine"),
}


@pytest.mark.parametrize("make", FOREIGN.values(), ids=FOREIGN)
def test_a_folder_with_other_things_is_refused_and_nothing_in_it_is_touched(
    tmp_path: Path, make: Callable[[Path], object]
) -> None:
    place = tmp_path / "other"
    place.mkdir(mode=0o775)
    make(place)
    put(place / "zzz.txt")
    before = snapshot(place)
    with pytest.raises(DataFolderRefused) as refused:
        data_dir_or_default(place)
    assert snapshot(place) == before
    assert str(refused.value).startswith(f"{place} holds files that are not Foresight's (")
    assert str(refused.value).endswith(f"with --data-dir, such as {place / 'foresight'}.")


def killed_in_its_first_run(at: Path) -> None:
    """As a kill leaves it: the tables are in the WAL alone."""
    at.mkdir(exist_ok=True)
    with closing(Database(at / "live" / "foresight.sqlite")):
        for file in (at / "live").iterdir():
            shutil.copy(file, at / file.name)
    shutil.rmtree(at / "live")


def of_the_first_schema(at: Path) -> None:
    script = (assets_dir() / "migrations" / "0001_chats.sql").read_text(encoding="utf-8")
    with closing(sqlite3.connect(at / "foresight.sqlite")) as connection:
        connection.executescript(script)  # and a version that was lost: 0


def damaged(at: Path) -> None:
    with closing(Database(at / "foresight.sqlite")):
        pass
    with (at / "foresight.sqlite").open("rb+") as file:
        file.write(b"\0" * 4096)


WITHOUT_MARKER: dict[str, Callable[[Path], object]] = {
    "chats": lambda at: Database(at / "foresight.sqlite").close(),
    "chats of the first schema": of_the_first_schema,
    "damaged chats": damaged,
    "chats in a WAL": killed_in_its_first_run,
    "a finished download": lambda at: (at / "downloads").mkdir(),
    "a start that failed": lambda at: (put(at / "in-use.lock", ""), (at / "steps").mkdir()),
    "what the system put there": lambda at: (put(at / ".DS_Store"), (at / "lost+found").mkdir()),
    "nothing": lambda at: at.iterdir(),
}


@pytest.mark.parametrize("make", WITHOUT_MARKER.values(), ids=WITHOUT_MARKER)
def test_a_folder_of_the_app_without_a_marker_gets_one_and_keeps_all_else(
    tmp_path: Path, make: Callable[[Path], object]
) -> None:
    make(tmp_path)
    before = snapshot(tmp_path)
    assert data_dir_or_default(tmp_path) == tmp_path
    after = snapshot(tmp_path)
    assert (tmp_path / MARKER).is_file()
    changed = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
    assert changed == {".", MARKER}
    put(tmp_path / "a note.txt")
    assert data_dir_or_default(tmp_path) == tmp_path, (
        "once marked it is the app's, whatever comes to lie in it"
    )


def test_a_new_folder_has_its_marker_before_anything_else(tmp_path: Path) -> None:
    folder = data_dir_or_default(tmp_path / "a" / "data")
    assert [path.name for path in folder.iterdir()] == [MARKER]
    assert os.name != "posix" or folder.stat().st_mode & 0o777 == 0o700


def test_home_and_the_whole_disk_are_refused_even_when_they_are_empty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    for folder in (tmp_path, Path("~"), tmp_path / "x" / ".."):
        with pytest.raises(DataFolderRefused, match=r"is your home folder, .*such as .*foresight"):
            data_dir_or_default(folder)
    with pytest.raises(DataFolderRefused, match="is the root of a disk"):
        data_dir_or_default(Path(tmp_path.anchor))
    assert list(tmp_path.iterdir()) == []


def test_a_link_to_a_folder_is_that_folder(tmp_path: Path) -> None:
    put(tmp_path / "other" / "thesis.tex")
    (tmp_path / "own").mkdir()
    for name in ("other", "own", "nowhere"):
        (tmp_path / f"to-{name}").symlink_to(tmp_path / name)
    data_dir_or_default(tmp_path / "to-own")
    assert (tmp_path / "own" / MARKER).exists()
    for name, words in (("to-other", "thesis.tex"), ("to-nowhere", "cannot be used")):
        with pytest.raises(DataFolderRefused, match=words):
            data_dir_or_default(tmp_path / name)


def test_where_nothing_can_be_written_it_is_a_sentence_and_commands_without_the_option_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path / "file")
    for place in (tmp_path / "file", tmp_path / "file" / "data"):
        with pytest.raises(DataFolderRefused, match=r"cannot be used \(.*\)\. .*--data-dir"):
            data_dir_or_default(place)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "file"))
    if sys.platform == "linux":
        assert optional_data_dir() == tmp_path / "file" / "foresight"


@POSIX
@pytest.mark.skipif(os.name == "posix" and os.geteuid() == 0, reason="root writes everywhere")
def test_a_folder_that_is_read_only_is_a_sentence(tmp_path: Path) -> None:
    place = tmp_path / "data"
    place.mkdir(mode=0o500)
    with pytest.raises(DataFolderRefused, match=r"cannot be used \(Permission denied\)"):
        data_dir_or_default(place)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows cannot limit the size of files")
def test_a_full_disk_at_the_first_start_is_a_sentence(tmp_path: Path) -> None:
    child = run_python(CLAIM_ON_A_FULL_DISK, tmp_path / "data")
    assert (child.returncode, child.stdout) == (1, "")
    assert child.stderr.startswith(f"The data folder {tmp_path / 'data'} cannot be used (File too large)")


def commands(group: TyperGroup, *names: str) -> Iterator[tuple[str, ...]]:
    """Every command that takes --data-dir, with arguments that it needs."""
    for name, command in group.commands.items():
        if isinstance(command, TyperGroup):
            yield from commands(command, *names, name)
        elif any("--data-dir" in parameter.opts for parameter in command.params):
            needed = [one for one in command.params if isinstance(one, TyperArgument) and one.required]
            prompt = ["--prompt", "Hello"] if name == "generate" else []
            yield (*names, name, *prompt, *(["1"] * len(needed)))


APP = get_command(cli)
assert isinstance(APP, TyperGroup)
COMMANDS = [("--no-browser",), *commands(APP)]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_refuses_a_folder_with_other_things(tmp_path: Path, command: tuple[str, ...]) -> None:
    put(tmp_path / "gradio" / "app.py")
    put(tmp_path / "restore.sqlite")
    before = snapshot(tmp_path)
    result = CliRunner().invoke(cli, [*command, "--data-dir", str(tmp_path)])
    assert result.exit_code == 1 and result.stdout == "" and snapshot(tmp_path) == before
    assert result.stderr.startswith(
        f"Error: {tmp_path} holds files that are not Foresight's (gradio, restore"
    )
    assert result.stderr.count("\n") == 1


def test_the_default_folder_of_another_program_is_refused_as_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.database.data_folder.default_data_dir", lambda: tmp_path)
    put(tmp_path / "savegame.bin")
    for folder in (lambda: data_dir_or_default(None), optional_data_dir):
        with pytest.raises(DataFolderRefused, match=r"savegame\.bin"):
            folder()
