"""Every piece of advice that the app gives was followed once, and then the situation was over.

`KINDS` of advice.py says of each kind which tests follow it, or why none can. A new sentence that advises something
of no kind fails here.
"""

import os
import re
import shlex
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from app.chats.chats import Chats
from app.database.backup_rotation import DailyBackups
from app.database.data_folder import DataFolder, data_dir_or_default
from app.database.database import Database, database_in
from app.database.files import FILE_NAME, backups_in
from app.database.restoring import apply_staged, stage
from app.documents.documents import Documents
from app.errors import AppError, ChatNotFound, DocumentError, StaleChat, StoreBroken, StoreError
from app.main import cli
from app.settings import Settings, SettingsFile
from app.ui.settings.self_check import check_data_folder
from app.web.listening import listen
from tests.advice import CHECKOUT, KINDS, commands, sentences
from tests.commands.typed import Done, typed
from tests.database.libraries import CHATS, damage, damage_table, make_library
from tests.documents import files as document_files

CPU = ("--device", "cpu", "--dtype", "float32", "--max-new-tokens", "2")


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with chats, documents and an automatic backup."""
    folder = data_dir_or_default(tmp_path_factory.mktemp("library"))
    make_library(folder)
    with closing(database_in(folder)) as database:
        DailyBackups(database).keep()
    return folder


@pytest.fixture
def data(library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it, which is the app's own folder."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))
    return shutil.copytree(library, tmp_path / "home" / "foresight")


def advised(sentence: str) -> list[list[str]]:
    """The commands that a sentence names between backticks, as words."""
    found = re.findall(r"`(python run\.py [^`]+)`", sentence)
    assert found, sentence
    return [shlex.split(line)[2:] for line in found]


def follow(sentence: str) -> Done:
    """Types what a sentence says, and what that says, until nothing more is advised."""
    done = typed(*advised(sentence)[0])
    assert done.returncode == 0, done.stderr
    return follow(done.stdout) if "`python run.py" in done.stdout else done


def chats_in(data: Path) -> int:
    with closing(database_in(data)) as database:
        assert database.damage() == ""
        return len(Chats(database).summaries())


# A damaged database


NO_DATABASE = b"This is no database. " * 500
TABLES = ("message", "chat", "message_words_data", "message_tree")
DAMAGES: dict[str, Callable[[Path], object]] = {
    "no header": lambda file: damage(file, 1),
    "cut in half": lambda file: os.truncate(file, file.stat().st_size // 2),
    **{f"no {table}": lambda file, table=table: damage_table(file, table) for table in TABLES},
    "a text": lambda file: file.write_bytes(NO_DATABASE),
}
COMMANDS = (
    ("chats", "list"), ("chats", "search", "words"), ("chats", "export"), ("chats", "export", "--markdown"),
    ("chats", "backup", "copy.sqlite"), ("documents", "list"), ("documents", "list", "--collection", "Sea"),
    ("documents", "remove", "1"),
)  # fmt: skip


@pytest.mark.parametrize("harm", DAMAGES)
def test_a_damaged_database_is_rescued_or_restored_as_advised(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, harm: str
) -> None:
    monkeypatch.chdir(tmp_path)
    data = data.rename(tmp_path / "Åsa's data")  # not the folder that commands take by themselves
    DAMAGES[harm](data / FILE_NAME)
    said = [typed(*command, "--data-dir", data) for command in COMMANDS]
    told = next(done.stderr for done in said if "`python run.py" in done.stderr)
    assert all("Traceback" not in done.stderr for done in said)
    ways = advised(told)
    assert [way[:2] for way in ways] == [["chats", "rescue"], ["chats", "restore"]]
    rescued = typed(*ways[0])
    if harm != "a text":
        assert rescued.returncode == 0 and follow(rescued.stdout).returncode == 0
        if harm != "cut in half":
            assert chats_in(data) == CHATS
    assert typed(*ways[1]).returncode == 0
    assert chats_in(data) == CHATS
    assert typed("chats", "list", "--data-dir", data).stderr == ""


def test_what_the_check_finds_comes_with_advice(data: Path) -> None:
    damage_table(data / FILE_NAME, "message_parent")
    with closing(database_in(data)) as database:
        problem = database.damage()
        with pytest.raises(StoreBroken) as refused:
            DailyBackups(database, lambda: 1e12).keep()
    assert advised(problem) == advised(str(refused.value))
    follow(problem)
    assert chats_in(data) == CHATS


@pytest.mark.parametrize("lose", [lambda file: os.truncate(file, 0), Path.unlink], ids=["empty", "deleted"])
def test_a_database_that_is_gone_is_restored_as_advised(data: Path, lose: Callable[[Path], object]) -> None:
    lose(data / FILE_NAME)
    told = typed("chats", "list", "--data-dir", data)
    assert (told.returncode, "0 chats" in told.stdout) == (0, True)
    follow(told.stderr)
    assert chats_in(data) == CHATS


@pytest.mark.parametrize("number", [0, -1, 3, 7])
def test_a_wrong_number_of_the_schema_needs_no_advice(data: Path, number: int) -> None:
    with closing(sqlite3.connect(data / FILE_NAME)) as connection:
        connection.execute(f"PRAGMA user_version = {number}")
    assert f"{CHATS} chats" in typed("chats", "list", "--data-dir", data).stdout
    assert chats_in(data) == CHATS


# What can be moved away, closed, or left where it is


def another_program(data: Path) -> None:
    (data / FILE_NAME).unlink()
    with closing(sqlite3.connect(data / FILE_NAME)) as connection:
        connection.execute("CREATE TABLE recipes (name)")


def folder_instead(data: Path) -> None:
    (data / FILE_NAME).unlink()
    (data / FILE_NAME).mkdir()


def folder_as_wal(data: Path) -> None:
    (data / f"{FILE_NAME}-wal").mkdir()


@pytest.mark.parametrize(
    "block", [another_program, folder_instead, folder_as_wal], ids=lambda block: block.__name__
)
def test_what_is_in_the_way_is_moved_away_as_advised(
    data: Path, tmp_path: Path, block: Callable[[Path], None]
) -> None:
    block(data)
    told = typed("documents", "list", "--data-dir", data).stderr
    way = re.match(
        r"Error: (\S+) is (?:a folder\. Move it to another place|not a database of Foresight.*Move it)", told
    )
    assert way, told
    Path(way[1]).rename(tmp_path / "elsewhere")
    assert typed("documents", "list", "--data-dir", data).returncode == 0


def test_a_newer_database_leaves_another_folder(data: Path, tmp_path: Path) -> None:
    with closing(sqlite3.connect(data / FILE_NAME)) as connection:
        connection.execute("PRAGMA user_version = 99")
    assert "Update Foresight, or choose another folder" in typed("chats", "list", "--data-dir", data).stderr
    assert typed("chats", "list", "--data-dir", tmp_path / "other").returncode == 0


def test_the_program_that_locks_is_closed_as_advised(data: Path) -> None:
    with closing(Database(data / FILE_NAME, busy_seconds=0.05)) as database:
        chats = Chats(database)
        other = sqlite3.connect(data / FILE_NAME, isolation_level=None)
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(StoreError, match=r"Another program has locked .*Close it and try again"):
            chats.create(title="New")
        other.close()
        chats.create(title="New")


def test_another_data_folder_is_taken_as_advised(data: Path, tmp_path: Path) -> None:
    taken = tmp_path / "taken"
    taken.write_text("mine")
    told = typed("chats", "list", "--data-dir", taken)
    assert (told.returncode, "--data-dir" in told.stderr) == (1, True)
    assert typed("chats", "list", "--data-dir", data).returncode == 0


def test_settings_that_are_a_folder_are_moved_away_as_advised(tmp_path: Path) -> None:
    (tmp_path / "settings.json").mkdir()
    with pytest.raises(AppError, match="move it away"):
        SettingsFile(tmp_path).load()
    (tmp_path / "settings.json").rename(tmp_path / "elsewhere")
    assert SettingsFile(tmp_path).load() == Settings()


def test_while_the_app_runs_a_rescue_waits_until_it_is_quit(data: Path) -> None:
    folder = DataFolder(data)
    folder.hold()
    folder.announce("http://127.0.0.1:7860")
    assert "Quit it, and try again" in typed("chats", "rescue", "--data-dir", data).stderr
    assert "already running" in typed("chats", "restore", backups_in(data)[-1], "--data-dir", data).stderr
    folder.release()
    assert typed("chats", "rescue", "--data-dir", data).returncode == 0


def test_a_staged_backup_is_in_place_after_the_next_start(data: Path) -> None:
    stage(backups_in(data)[-1], data)
    assert "was restored" in apply_staged(data) and chats_in(data) == CHATS


@pytest.mark.skipif(os.name != "posix", reason="only POSIX has such rights")
def test_rights_are_taken_away_by_the_command_of_the_self_check(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    *_, number, path = check_data_folder(tmp_path).details.split()
    Path(path).chmod(int(number, 8))
    assert check_data_folder(tmp_path).verdict == "passed"


def test_another_port_is_taken_as_advised() -> None:
    with closing(listen(0)) as taken:
        port = taken.getsockname()[1]
        with closing(listen(port)) as other:
            assert other.getsockname()[1] != port
    with pytest.raises(AppError, match="not an address of this machine: choose 127"):
        listen(0, "192.0.2.1")
    listen(0, "127.0.0.1").close()


def test_a_chat_that_changed_is_looked_at_and_changed_again(data: Path) -> None:
    with closing(database_in(data)) as database:
        chats = Chats(database)
        old = chats.thread(1).version
        chats.add(old, "user", "From another window")
        with pytest.raises(StaleChat):
            chats.add(old, "user", "Late")
        chats.add(chats.thread(1).version, "user", "Late")
        chats.delete(1)
        with pytest.raises(ChatNotFound, match="Choose another one from the list"):
            chats.thread(1)
        assert chats.thread(chats.summaries()[0].id)


# Commands: what is refused, and what its sentence advises


@dataclass(frozen=True, slots=True)
class Refused:
    """A command line, what it is told, and the command line that follows the advice; {} is a folder of files."""

    typed: str
    told: str
    instead: str
    said: str = ""


GENERATE = f"generate {' '.join(CPU)}"
BENCH = "bench --device cpu --dtype float32 --max-new-tokens 2 --rounds 1 --prompts {}/good.jsonl"
REFUSED = (
    Refused("chats backup {}", "is a folder. Choose a file in it", "chats backup {}/copy.sqlite"),
    Refused("chats backup {}/text", "with --overwrite", "chats backup {}/text --overwrite"),
    Refused(
        "chats backup {}/data/foresight.sqlite --overwrite",
        "Choose another file",
        "chats backup {}/copy.sqlite",
    ),
    Refused("chats backup {}/none/copy.sqlite", "Choose another file", "chats backup {}/copy.sqlite"),
    Refused("chats restore {}/none", "Choose a file that Back up", "chats restore {}/backup.sqlite"),
    Refused("chats restore {}/text", "Choose a file that Back up", "chats restore {}/backup.sqlite"),
    Refused("chats rescue {}/none", "Choose the database", "chats rescue {}/data/foresight.sqlite"),
    Refused("chats rescue --out {}/none/x", "file with --out", "chats rescue --out {}/x"),
    Refused("chats rescue --out {}", "is a folder. Choose", "chats rescue --out {}/x"),
    Refused("chats import {}/text", "Choose a file that", "chats import {}/chats.json"),
    Refused("chats import {}/empty.json", "Choose a JSON file that", "chats import {}/chats.json"),
    Refused("chats import {}/none", "Choose another file", "chats import {}/chats.json"),
    Refused(
        "chats import {}/binary", "Save it as UTF-8, or choose another file", "chats import {}/chats.json"
    ),
    Refused("chats import {}/deep.json", "Choose a file that", "chats import {}/chats.json"),
    Refused("chats export --out {}/none/x", "Choose another file", "chats export --out {}/x"),
    Refused("chats export 999", "Choose another one from the list", "chats export 1"),
    Refused("chats search ' '", "Type some words", "chats search words"),
    Refused("documents list --collection X", "Existing collections: Sea", "documents list --collection Sea"),
    Refused("documents remove", "Give either document numbers", "documents remove 1"),
    Refused("documents remove 99", "no longer there", "documents remove 1"),
    Refused("documents add {}/none", "check its name", "documents add {}/text"),
    Refused("documents add {}", "choose files", "documents add {}/text"),
    Refused(
        "documents add {}/text --title T", 'Add "-" to', "documents add {}/text - --title T", "Some words"
    ),
    Refused("documents search ' '", "Type some words", "documents search whales"),
    Refused(
        "documents search whales --data-dir {}/new",
        "Add some with",
        "documents add {}/text --data-dir {}/new",
    ),
    Refused("models list --dtype int8", "add it, or leave", "models list --catalogue --dtype int8"),
    Refused("models remove org/none --yes", "models list` shows", "models list"),
)
ASKED = (
    ("", "Give either --prompt"),
    ("--prompts {}/none", "Choose another file"),
    ("--prompts {}/text", "Write one object a line"),
    ("--prompts {}/deep.json", "Write one object a line"),
    ("--prompts {}/nothing", "Write one object a line"),
    ("--prompts {}/empty.json", "needs"),
    ("--prompt Hi --model {}/none", "check the path"),
    ("--prompt Hi --model '!'", "or 'demo'"),
    ("--prompt Hi --decoder jacobi --rows 3", "Leave it out"),
    (f"--prompt '{'word ' * 3000}'", "Shorten it"),
    ("--prompt Hi --attention flash", "Choose auto"),
)
"""What `generate` refuses. The advice of all is followed at once, because loading a model takes a while."""


@pytest.fixture(scope="module")
def choices(library: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with files to choose, right and wrong ones."""
    folder = tmp_path_factory.mktemp("choices")
    (folder / "text").write_text("Some words in a file.\n")
    (folder / "nothing").write_text("")
    (folder / "binary").write_bytes(b"\xff\xfe\x00\x01")
    (folder / "empty.json").write_text("{}")
    (folder / "deep.json").write_text("[" * 100_000)
    (folder / "good.jsonl").write_text('{"prompt": "Hello"}\n')
    own = ("--data-dir", library)
    assert typed("chats", "export", "--out", folder / "chats.json", *own).returncode == 0
    assert typed("chats", "backup", folder / "backup.sqlite", *own).returncode == 0
    return folder


@pytest.fixture
def files(choices: Path, data: Path, tmp_path: Path) -> Path:
    """A copy of the choices, beside the data folder."""
    folder = shutil.copytree(choices, tmp_path / "files")
    (folder / "data").symlink_to(data)
    return folder


@pytest.mark.parametrize("refused", REFUSED, ids=lambda refused: refused.typed[:60])
def test_a_command_that_is_refused_works_as_advised(files: Path, refused: Refused) -> None:
    told = typed(*_words(refused.typed, files))
    assert told.returncode in (1, 2) and refused.told in told.stderr, told.stderr
    assert "Traceback" not in told.stderr
    done = typed(*_words(refused.instead, files), said=refused.said)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("options", "advice"), ASKED, ids=lambda words: words[:40])
def test_a_question_that_is_refused_gets_advice(files: Path, options: str, advice: str) -> None:
    told = typed(*_words(f"{GENERATE} {options}", files))
    assert told.returncode in (1, 2) and advice in told.stderr, told.stderr


def test_a_question_that_follows_the_advice_is_answered(files: Path) -> None:
    options = "--prompts {}/good.jsonl --model demo --attention auto --rows 3"
    done = typed(*_words(f"{GENERATE} {options}", files))
    assert done.returncode == 0, done.stderr


def test_a_benchmark_that_is_refused_is_run_as_advised(files: Path) -> None:
    refused = (
        ("--decoders x", "Choose from"),
        ("--decoders plain --json {}/none/x", "another file for --json"),
    )
    for options, advice in refused:
        assert advice in typed(*_words(f"{BENCH} {options}", files)).stderr
    done = typed(*_words(f"{BENCH} --decoders plain --json {{}}/x", files))
    assert done.returncode == 0, done.stderr


def _words(line: str, files: Path) -> list[str]:
    return shlex.split(line.replace("{}", str(files)))


# Documents


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("locked.pdf", lambda path: document_files.pdf(path, "Some words", password="secret")),
        ("damaged.docx", lambda path: path.write_bytes(b"PK\x03\x04 no archive")),
        ("photo.png", lambda path: path.write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 20)),
        ("blank.txt", lambda path: path.write_text(" \n ")),
        ("archive.docx", document_files.archive),
    ],
)
def test_what_cannot_be_read_is_added_as_text(
    tmp_path: Path, name: str, make: Callable[[Path], object]
) -> None:
    make(tmp_path / name)
    with (
        closing(database_in(tmp_path / "data")) as database,
        closing(Documents(database, tmp_path / "data")) as documents,
    ):
        collection = documents.create("Files")
        try:
            wrong = documents.add_files(collection, [tmp_path / name])[0]
            documents.wait()
            assert documents.document(wrong).state == "failed" and documents.document(wrong).note
        except DocumentError as error:
            assert str(error)
        (tmp_path / "words.txt").write_text("Some words")
        added = documents.add_files(collection, [tmp_path / "words.txt"])[0]
        documents.wait()
        assert documents.document(added).state == "ready"


# All of them


def test_each_advice_is_of_a_kind_that_was_followed_or_cannot_be() -> None:
    for how in KINDS:
        assert how in globals() or (CHECKOUT / how).exists() or how.startswith("no "), how
    kinds = [re.compile(line.strip()) for lines in KINDS.values() for line in lines.strip().splitlines()]
    unknown = [
        f"{file}: {text}" for file, text in sentences() if not any(kind.search(text) for kind in kinds)
    ]
    assert not unknown, "\n".join(unknown)


def test_each_command_in_messages_and_documents_exists_with_its_options() -> None:
    app = get_command(cli)
    wrong = [f"{file}: {line}" for file, line in commands() if not _exists(line, app)]
    assert not wrong, "\n".join(wrong)


def _exists(line: str, app: Any) -> bool:
    """Whether the command is there, with the options that are named; the app's own where none is."""
    command, words = app, [word.strip("[]`'\"…") for word in line.split()]
    is_app = not words or words[0].startswith("-")
    while words and words[0] in getattr(command, "commands", {}):
        command = command.commands[words.pop(0)]
    options = {name for parameter in command.params for name in parameter.opts} | {"--help"}
    named = {word.partition("=")[0] for word in words if word.startswith("--")}
    return (is_app or command is not app) and named <= options
