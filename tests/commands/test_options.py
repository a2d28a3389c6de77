"""Options before a command count, or are refused in a sentence; none is ignored. So it is with all commands."""

import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.core import TyperGroup
from typer.main import get_command

from app.chats.chats import Chats
from app.commands.options import MAY_BE_EMPTY
from app.database.database import database_in
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
    yield path, group
    for name, command in group.commands.items():
        if isinstance(command, TyperGroup):
            yield from groups(command, (*path, name))


def options(command: Any) -> list[Any]:
    return [one for one in command.params if one.param_type_name == "option" and one.name != "help"]


def required_arguments(command: Any) -> list[str]:
    return ["1" for one in command.params if one.param_type_name == "argument" and one.required]


def name_of(option: Any) -> str:
    return str(option.name)


def words_of(option: Any) -> list[str]:
    """The option as it is typed."""
    return [option.opts[0]] if option.is_flag else [option.opts[0], VALUES[option.opts[0]]]


TREE = get_command(cli)
COMMANDS = dict(commands(TREE))
CASES = [
    pytest.param(place, option, path, id=" ".join([*place, option.opts[0], *path[len(place) :]]))
    for place, group in groups(TREE)
    for option in options(group)
    for path in COMMANDS
    if path[: len(place)] == place
]


def outcome(words: list[str], path: tuple[str, ...]) -> tuple[int, dict[str, Any]]:
    """The exit code of these words, and what reached the command."""
    reached = dict[str, Any]()
    with pytest.MonkeyPatch.context() as patch, pytest.raises(SystemExit) as ended:
        patch.setattr(COMMANDS[path], "callback", lambda **given: reached.update(given))
        TREE(words, prog_name="run.py")
    return int(ended.value.code or 0), reached


@pytest.mark.parametrize(("place", "option", "path"), CASES)
def test_an_option_before_a_command_counts_or_is_refused(
    place: tuple[str, ...], option: Any, path: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    command = COMMANDS[path]
    arguments = required_arguments(command)
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


@pytest.mark.parametrize("path", list(COMMANDS), ids=" ".join)
def test_an_option_with_two_values_is_refused(
    path: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    command = COMMANDS[path]
    arguments = required_arguments(command)
    single = [one for one in options(command) if not one.multiple and not one.is_flag]
    for option in single:
        name = option.opts[0]
        assert outcome([*path, f"{name}=0", *arguments, name, "1"], path) == (2, {})
        assert capsys.readouterr().err == f"Error: {name} is given 2 times. Give it once.\n"


@pytest.mark.parametrize("path", list(COMMANDS), ids=" ".join)
def test_an_option_with_an_empty_value_is_refused(
    path: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    command = COMMANDS[path]
    arguments = required_arguments(command)
    for option in options(command):
        name = option.opts[0]
        if not (option.is_flag or name in MAY_BE_EMPTY):
            assert outcome([*path, name, "", *arguments], path) == (2, {})
            told = f"Error: The value of {name} is empty. Write one, or leave the option out.\n"
            assert capsys.readouterr().err == told


@pytest.mark.parametrize("path", list(COMMANDS), ids=" ".join)
def test_an_empty_argument_is_refused(path: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    for one in COMMANDS[path].params:
        if one.param_type_name == "argument" and one.nargs == 1:
            assert outcome([*path, ""], path) == (2, {})
            assert capsys.readouterr().err == f"Error: {one.metavar} is empty. Give a value for it.\n"


@pytest.mark.parametrize(
    "words", [("chats", "export"), ("documents", "remove"), ("documents", "restore")], ids=" ".join
)
def test_a_number_that_the_database_cannot_have_is_refused(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert outcome([*words, str(2**63)], words) == (2, {})
    assert capsys.readouterr().err.startswith("Error: Invalid value for ")
    assert outcome([*words, str(2**63 - 1)], words)[0] == 0


@pytest.mark.parametrize("option", ["--data-dir", "--model", "--devices"])
def test_an_option_of_the_app_with_an_empty_value_is_refused(
    option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        TREE([option, ""], prog_name="run.py")
    assert ended.value.code == 2
    assert (
        capsys.readouterr().err
        == f"Error: The value of {option} is empty. Write one, or leave the option out.\n"
    )


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
    "path", [path for path, one in COMMANDS.items() if "data_dir" in map(name_of, options(one))], ids=" ".join
)
def test_a_folder_of_nobody_is_a_sentence_with_every_command(path: tuple[str, ...], tmp_path: Path) -> None:
    needed = {"generate": ["--prompt", "Hello"], "bench": ["--decoders", "plain"]}
    file = tmp_path / "file.md"
    file.write_text("Hello", encoding="utf-8")
    command = COMMANDS[path]
    arguments = [file for one in command.params if one.param_type_name == "argument" and one.required]
    done = typed("--data-dir", "~nobody-of-this-name/x", *path, *needed.get(path[0], []), *arguments)
    told = "This machine has no user of ~nobody-of-this-name/x. Choose another folder with --data-dir."
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"Error: {told}\n")


ALWAYS = {
    "generate": "--prompt --prompts --raw --decoder --temperature --repetition-penalty --dtype --device --devices "
    "--quantisation --attention --max-new-tokens --ignore-eos --stop --thinking --model --same-text --data-dir "
    "--json",
    "bench": "--prompts --model --decoders --raw --same-text --temperature --dtype --device --quantisation "
    "--attention --max-new-tokens --ignore-eos --rounds --json --data-dir",
    "serve": "--model --draft-model --port --host --dtype --device --devices --quantisation --thinking --data-dir "
    "--allow-origin",
    "models list": "--catalogue --json",
    "models search": "--limit --data-dir --json",
    "models info": "--dtype --context --data-dir --json",
    "models download": "--data-dir --json",
    "models remove": "--yes --data-dir --json",
    "models verify": "--data-dir --json",
    "models login": "--data-dir",
    "models logout": "",
    "chats list": "--data-dir --json",
    "chats search": "--limit --data-dir --json",
    "chats export": "--markdown --out --data-dir",
    "chats import": "--data-dir --json",
    "chats backup": "--overwrite --data-dir --json",
    "chats restore": "--data-dir --json",
    "chats rescue": "--out --data-dir --json",
    "documents add": "--collection --data-dir --json",
    "documents list": "--collection --data-dir --json",
    "documents remove": "--data-dir --json",
    "documents restore": "--data-dir --json",
    "documents search": "--collection --limit --data-dir --json",
    "documents ask": "--collection --model --decoder --temperature --dtype --device --quantisation "
    "--max-new-tokens --thinking --data-dir --json",
    "install": "--native",
    "uninstall": "",
    "": "--port --data-dir --model --draft-model --native --no-key --api --devices",
}
"""The options of each command that change something whatever else is given; "" is the app itself."""
AT_0 = "changes nothing at temperature 0. Add --temperature, such as 0.8."
FOR_DRAFTS = "--draft-model is for the decoders auto and lookahead. Choose one of them, or leave it out."
OFF = "--thinking-budget changes nothing with --thinking off. Leave it out."
FOR_CATALOGUE = "--dtype and --context are only for --catalogue: add it, or leave them out."


def needs(option: str, other: str) -> str:
    return f"{option} changes nothing without {other}. Add {other}, or leave {option} out."


def useless(option: str, decoders: str) -> str:
    return f"{option} would change nothing with {decoders}. Leave it out."


USELESS = [
    *(
        (f"{command} {option} 3 {'--prompt x' if command == 'generate' else ''} {decoder} plain".split(),
         useless(option, f"{decoder} plain"))
        for command, decoder in (("generate", "--decoder"), ("bench", "--decoders"))
        for option in ("--rows", "--window", "--ngram", "--guesses")
    ),
    (["generate", "--prompt", "x", "--decoder", "plain", "--preset", "7b"], useless("--preset", "--decoder plain")),
    (["bench", "--decoders", "plain", "--preset", "7b"], useless("--preset", "--decoders plain")),
    (["generate", "--prompt", "x", "--decoder", "plain", "--draft-model", "x"], FOR_DRAFTS),
    (["bench", "--decoders", "plain", "--draft-model", "x"], FOR_DRAFTS),
    *((f"generate --prompt x {option} 0.5".split(), f"{option} {AT_0}") for option in ("--top-p", "--min-p")),
    (["generate", "--prompt", "x", "--top-k", "3"], f"--top-k {AT_0}"),
    (["generate", "--prompt", "x", "--seed", "3"], f"--seed {AT_0}"),
    (["bench", "--temperature", "0", "--seed", "3"], f"--seed {AT_0}"),
    (["documents", "ask", "--seed", "3", "x"], f"--seed {AT_0}"),
    (["generate", "--prompt", "x", "--thinking", "off", "--thinking-budget", "5"], OFF),
    (["serve", "--thinking", "off", "--thinking-budget", "5"], OFF),
    (["documents", "ask", "--thinking", "off", "--thinking-budget", "5", "x"], OFF),
    (["bench", "--overwrite"], needs("--overwrite", "--json")),
    (["chats", "export", "--overwrite"], needs("--overwrite", "--out")),
    (["chats", "rescue", "--overwrite"], needs("--overwrite", "--out")),
    (["serve", "--api-key", "x", "--no-key"], "Choose one of --api-key and --no-key."),
    (["serve", "--api-key", "x", "--api-key-file", "y"], "Choose one of --api-key and --api-key-file."),
    (["models", "list", "--catalogue", "--data-dir", "x"],
     "--data-dir changes nothing with --catalogue. Leave it out."),
    (["models", "list", "--dtype", "int8"], FOR_CATALOGUE),
    (["models", "list", "--context", "512"], FOR_CATALOGUE),
    (["documents", "add", "--title", "x", "tests/commands/typed.py"],
     '--title names the text from standard input. Add "-" to the files, or leave out --title.'),
    (["documents", "remove", "--collection", "x", "1"], "Give either document numbers or --collection NAME."),
    (["--native", "--no-browser"], "--no-browser changes nothing with --native. Leave it out."),
]  # fmt: skip
"""Commands with an option that would change nothing beside the others, and why they are refused."""


CHECKED_AT_LOAD = {"--offload"}
"""Options that are refused once the model is known, as tests/engine/loading shows."""


def test_each_option_of_each_command_counts_always_or_is_refused_where_it_does_not() -> None:
    every = {" ".join(path): one for path, one in COMMANDS.items()} | {"": TREE}
    assert set(ALWAYS) == set(every)
    for name, one in every.items():
        refused = {
            word
            for words, _ in USELESS
            if name == " ".join(itertools.takewhile(lambda word: not word.startswith("-"), words[:2]))
            for word in words
        }
        missing = {option.opts[0] for option in options(one)} - {*ALWAYS[name].split()} - refused
        assert missing <= CHECKED_AT_LOAD, f"{name}: say for {missing} when it counts"


@pytest.mark.parametrize(("words", "sentence"), USELESS, ids=lambda value: " ".join(value)[:60])
def test_an_option_that_would_change_nothing_is_refused(
    words: list[str], sentence: str, tmp_path: Path
) -> None:
    place = [] if "--data-dir" in words else ["--data-dir", str(tmp_path)]
    done = typed(*place, *words)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"Error: {sentence}\n")
