"""What the terminal gets: characters alone, whatever was written elsewhere."""

import json
from contextlib import closing
from pathlib import Path

import pytest

from app.chats.chats import Chats
from app.commands.console import as_json, print_text, printable
from app.commands.reply_output import stream_reply
from app.database.database import database_in
from app.values.messages import ModelChoice, Request
from tests.commands.scripted import ScriptedDecoders
from tests.commands.typed import typed

CLIPBOARD = "\x1b]52;c;ZXZpbA==\x07"
"""What makes a terminal write to the clipboard."""
SEEN = "\ufffd]52;c;ZXZpbA==\ufffd"


@pytest.mark.parametrize("control", ["\x1b", "\x07", "\r", "\x08", "\x00", "\x7f", "\x9b", "\x9d"])
def test_a_control_character_is_shown_and_not_obeyed(control: str) -> None:
    assert printable(f"a{control}b\n\tc") == "a\ufffdb\n\tc"


def test_what_is_said_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    print_text(CLIPBOARD)
    print_text(CLIPBOARD, err=True, is_line=False)
    assert capsys.readouterr() == (f"{SEEN}\n", SEEN)


def test_json_has_no_control_characters_and_loses_none() -> None:
    text = f"{CLIPBOARD}\x7f\x9b31m"
    seen = as_json({"text": text})
    assert printable(seen) == seen
    assert json.loads(seen) == {"text": text}


def test_a_reply_is_shown_while_it_is_written(capsys: pytest.CaptureFixture[str]) -> None:
    engine = ScriptedDecoders(first=CLIPBOARD)
    reply = stream_reply(engine, Request(ModelChoice("demo"), "Once"))
    assert capsys.readouterr().out == f"{SEEN} 1 2 3 4 5 6\n"
    assert reply.text.startswith(CLIPBOARD)


def test_documents_and_their_names_do_not_reach_the_terminals_controls(tmp_path: Path) -> None:
    named = tmp_path / "eggs\x1b]52;c;ZXZpbA==\x07.md"
    named.write_text(f"Eggs boil {CLIPBOARD} for six minutes." + " Or so." * 20, encoding="utf-8")
    folder, kitchen = tmp_path / "data", ("--collection", "Kitchen")
    for command in (["add", named, *kitchen], ["list", *kitchen], ["search", "eggs"]):
        done = typed("documents", *command, "--data-dir", folder)
        assert (done.returncode, printable(done.stdout)) == (0, done.stdout)
        assert SEEN in done.stdout


def test_chats_do_not_reach_the_terminals_controls(tmp_path: Path) -> None:
    with closing(database_in(tmp_path)) as database:
        chats = Chats(database)
        chats.ask(chats.create(title=f"Eggs {CLIPBOARD}"), f"How long {CLIPBOARD} do eggs boil?")
    for command in (["list"], ["search", "eggs"], ["search", "long"]):
        done = typed("chats", *command, "--data-dir", tmp_path)
        assert (done.returncode, printable(done.stdout)) == (0, done.stdout)
        assert "52;c" in done.stdout
