"""Options before a command count, or are refused in a sentence; none is ignored. So it is with all commands."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.core import TyperGroup
from typer.main import get_command

from app.chats import Chats
from app.database import database_in
from app.main import cli
from tests.commands.typed import typed

VALUES = {
    "--port": "8123",
    "--data-dir": "there",
    "--model": "org/model",
    "--draft-model": "org/draft",
    "--devices": "0,1",
}
"""A value for each option that is given to a group, other than its default."""


def commands(group: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command, at every depth, with the words that lead to it."""
    for name, command in group.commands.items():
        if isinstance(command, TyperGroup):
            yield from commands(command, (*path, name))
        else:
            yield (*path, name), command


def groups(group: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every group, the first one included."""
    yield path, group
    for name, command in group.commands.items():
        if isinstance(command, TyperGroup):
            yield from groups(command, (*path, name))


def options(command: Any) -> list[Any]:
    return [one for one in command.params if one.param_type_name == "option" and one.name != "help"]


def name_of(option: Any) -> str:
    return str(option.name)


def words_of(option: Any) -> list[str]:
    """The option as it is typed."""
    return [option.opts[0]] if option.is_flag else [option.opts[0], VALUES[option.opts[0]]]


TREE = get_command(cli)
CASES = [
    pytest.param(place, option, path, id=" ".join([*place, option.opts[0], *path[len(place) :]]))
    for place, group in groups(TREE)
    for option in options(group)
    for path, _ in commands(TREE)
    if path[: len(place)] == place
]


def outcome(words: list[str], path: tuple[str, ...]) -> tuple[int, dict[str, Any]]:
    """The exit code of these words, and what reached the command."""
    tree, reached = get_command(cli), dict[str, Any]()
    command = dict(commands(tree))[path]
    command.callback = lambda **given: reached.update(given)
    with pytest.raises(SystemExit) as ended:
        tree(words, prog_name="run.py")
    return int(ended.value.code or 0), reached


def test_all_commands_were_found() -> None:
    assert len(CASES) >= 10 * 20
    assert all(one.envvar is None for _, group in groups(TREE) for one in options(group))


@pytest.mark.parametrize(("place", "option", "path"), CASES)
def test_an_option_before_a_command_counts_or_is_refused(
    place: tuple[str, ...], option: Any, path: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    command = dict(commands(TREE))[path]
    arguments = ["1" for one in command.params if one.param_type_name == "argument" and one.required]
    given, rest = words_of(option), path[len(place) :]
    code, reached = outcome([*place, *given, *rest, *arguments], path)
    if any(option.opts[0] in one.opts for one in options(command)):
        assert (code, reached) == outcome([*path, *given, *arguments], path)
        assert code == 0
        assert str(reached[option.name]) == (VALUES.get(option.opts[0]) or "True")
    else:
        told = capsys.readouterr()
        assert (code, reached, told.out) == (2, {}, "")
        assert told.err == f"Error: {option.opts[0]} means nothing to `{' '.join(path)}`. Leave it out.\n"


@pytest.mark.parametrize("path", [path for path, _ in commands(TREE)], ids=" ".join)
def test_an_option_with_two_values_is_refused(
    path: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    command = dict(commands(TREE))[path]
    arguments = ["1" for one in command.params if one.param_type_name == "argument" and one.required]
    single = [one for one in options(command) if not one.multiple and not one.is_flag]
    for option in single:
        name = option.opts[0]
        assert outcome([*path, f"{name}=0", *arguments, name, "1"], path) == (2, {})
        assert capsys.readouterr().err == f"Error: {name} is given 2 times. Give it once.\n"


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (["--data-dir", "a", "chats", "list", "--data-dir", "b"], 2, "is given twice, as a and as b. Give"),
        (["--data-dir=a", "chats", "list", "--data-dir=a"], 0, ""),
        (["--data-dir", "a", "--data-dir", "a", "chats", "list"], 2, "--data-dir is given 2 times."),
        (["--data-dir=a", "--", "chats", "list"], 0, ""),
        (["--", "--data-dir", "a", "chats", "list"], 2, "No such command '--data-dir'"),
        (["chats", "list", "--", "--data-dir", "a"], 2, "Got unexpected extra argument"),
        (["chats", "--data-dir", "a", "list"], 2, "No such option: --data-dir"),
        (["--data", "a", "chats", "list"], 2, "No such option: --data"),
        (["--data-dir", "chats", "list"], 2, "No such command 'list'"),
        (["--port", "x", "chats", "list"], 2, "Invalid value for '--port': it must be a valid integer."),
        (["--no-browser", "--api", "chats", "list"], 2, "--no-browser means nothing to `chats list`."),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_every_way_of_writing_it_is_understood_or_refused(
    words: list[str], code: int, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    ended, reached = outcome(words, ("chats", "list"))
    assert ended == code
    assert reached.get("data_dir") == (None if code else Path("a"))
    assert sentence in capsys.readouterr().err


def test_words_behind_two_dashes_are_words_to_search_for() -> None:
    code, reached = outcome(["--data-dir=a", "chats", "search", "--", "--data-dir", "b"], ("chats", "search"))
    assert (code, reached["words"], reached["data_dir"]) == (0, ["--data-dir", "b"], Path("a"))


def test_chats_are_imported_and_restored_where_the_option_before_the_command_says(
    tmp_path: Path, data_home: Path
) -> None:
    one, other, backup = tmp_path / "one", tmp_path / "other", tmp_path / "backup.sqlite"
    database = database_in(one)
    Chats(database).create(title="Mine")
    database.close()
    exported = tmp_path / "chats.json"
    before = list(data_home.rglob("*.sqlite"))
    for words in (("chats", "export", "--out", exported), ("chats", "backup", backup)):
        assert typed("--data-dir", one, *words).returncode == 0
    assert typed("--data-dir", other, "chats", "import", exported).stdout == "1 chat imported.\n"
    assert typed(f"--data-dir={tmp_path / 'third'}", "chats", "restore", backup).returncode == 0
    for folder in (one, other, tmp_path / "third"):
        listed = json.loads(typed("--data-dir", folder, "chats", "list", "--json").stdout)
        assert [chat["title"] for chat in listed["chats"]] == ["Mine"]
    assert list(data_home.rglob("*.sqlite")) == before, "the library of whoever runs this is as it was"


def test_documents_are_removed_where_the_option_before_the_command_says(tmp_path: Path) -> None:
    note = tmp_path / "note.md"
    note.write_text("Eggs boil for six minutes.\n" * 20, encoding="utf-8")
    one, other = tmp_path / "one", tmp_path / "other"
    for folder in (one, other):
        assert typed("--data-dir", folder, "documents", "add", note).returncode == 0
    removed = typed("--data-dir", one, "documents", "remove", "1")
    assert (removed.returncode, removed.stdout) == (0, "1 document removed.\n")
    left = [
        json.loads(
            typed("documents", "list", "--collection", "Documents", "--data-dir", folder, "--json").stdout
        )
        for folder in (one, other)
    ]
    assert [len(one["documents"]) for one in left] == [0, 1]


@pytest.mark.parametrize(
    "path", [path for path, one in commands(TREE) if "data_dir" in map(name_of, options(one))], ids=" ".join
)
def test_a_folder_of_nobody_is_a_sentence_with_every_command(path: tuple[str, ...], tmp_path: Path) -> None:
    needed = {"generate": ["--prompt", "Hello"], "bench": ["--decoders", "plain"]}
    file = tmp_path / "file.md"
    file.write_text("Hello", encoding="utf-8")
    command = dict(commands(TREE))[path]
    arguments = [file for one in command.params if one.param_type_name == "argument" and one.required]
    done = typed("--data-dir", "~nobody-of-this-name/x", *path, *needed.get(path[0], []), *arguments)
    told = "This machine has no user of ~nobody-of-this-name/x. Choose another folder with --data-dir."
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"Error: {told}\n")
