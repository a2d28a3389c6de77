"""Processes that are killed while they chat, and threads that chat at once."""

import json
import random
import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from app.chats.chats import Chats
from app.database.database import Database
from app.values.chat import MessageContent
from tests.chats.samples import answer
from tests.tiers import named, some, todays_seed

CHECKOUT = Path(__file__).parents[2]
CHAT_UNTIL_KILLED = """
import itertools, json, random, sys
from pathlib import Path
from app.values.chat import TokenMark, MessageContent
from app.chats.chats import Chats
from app.database.database import Database

chats = Chats(Database(Path(sys.argv[1])))
chats.mark_interrupted()
source = random.Random(int(sys.argv[2]))

def acknowledge(**what):
    sys.stdout.write(json.dumps(what) + "\\n")
    sys.stdout.flush()

while True:
    place = chats.create(folder=f"run {sys.argv[2]}")
    for _ in range(source.randrange(1, 5)):
        place, reply = chats.ask(place, f"What is {source.random()}?")
        acknowledge(chat=place.chat, version=place.number, reply=reply, text="", state="writing")
        for attempt in range(source.randrange(1, 3)):
            if attempt:
                place, reply = chats.regenerate(place, reply)
                acknowledge(chat=place.chat, version=place.number, reply=reply, text="", state="writing")
            text = ""
            for word in range(source.randrange(1, 20)):
                text += f"word{word} " * 50
                marks = tuple(TokenMark(end, "window", end) for end in range(word * 20))
                chats.write(reply, MessageContent(text, marks=marks))
                acknowledge(chat=place.chat, version=place.number, reply=reply, text=text, state="writing")
            chats.write(reply, MessageContent(text, "done"))
            acknowledge(chat=place.chat, version=place.number, reply=reply, text=text, state="done")
    if source.random() < 0.3:
        chats.delete(place.chat)
        chats.purge()
        acknowledge(gone=place.chat)
"""


def chat_until_killed(path: Path, number: int) -> list[dict[str, Any]]:
    """What a child said was on the disk before it was killed without a warning."""
    child = subprocess.Popen(
        [sys.executable, "-c", CHAT_UNTIL_KILLED, str(path), str(number)],
        cwd=CHECKOUT,
        stdout=subprocess.PIPE,
        encoding="utf-8",
    )
    assert child.stdout is not None
    with child, child.stdout as seen:
        first = seen.readline()
        time.sleep(random.Random(number).uniform(0, 0.15))
        child.kill()
        lines = [first, *seen.readlines()]
    return [json.loads(line) for line in lines if line.endswith("\n")]


@pytest.mark.parametrize("kills", some(named((5, 50)), "5"))
def test_kills_lose_nothing_that_was_acknowledged(tmp_path: Path, kills: int) -> None:
    first = 50 * todays_seed()
    path = tmp_path / "foresight.sqlite"
    seen: dict[int, dict[str, Any]] = {}
    versions: dict[int, int] = {}
    last: set[int] = set()
    for number in range(first, first + kills):
        lines = chat_until_killed(path, number)
        last.add(lines[-1].get("chat", 0))
        for line in lines:
            if gone := line.get("gone"):
                seen = {reply: one for reply, one in seen.items() if one["chat"] != gone}
                versions.pop(gone)
            else:
                seen[line["reply"]] = line
                versions[line["chat"]] = line["version"]
        with closing(Database(path)) as database:
            assert (database.note, database.damage()) == ("", "")
    assert len(seen) > kills // 2
    with closing(Database(path)) as database:
        check(Chats(database), seen, versions, last)


def check(chats: Chats, seen: dict[int, dict[str, Any]], versions: dict[int, int], last: set[int]) -> None:
    """Everything acknowledged is there. The last action of a run may have been done and not acknowledged."""
    chats.mark_interrupted()
    there = {line.id for line in chats.summaries()}
    assert versions.keys() - there <= last
    for reply, line in seen.items():
        if line["chat"] in there:
            check_reply(chats.message(reply).content, line)
    for chat in versions.keys() & there:
        assert chats.thread(chat).version.number - versions[chat] in ((0, 1) if chat in last else (0,))


def check_reply(written: MessageContent, line: dict[str, Any]) -> None:
    assert written.text.startswith(line["text"])
    assert written.state in ("done", "interrupted")
    assert line["state"] == "writing" or (written.text, written.state) == (line["text"], "done")


def test_threads_chat_at_once_and_none_disturbs_the_other(tmp_path: Path) -> None:
    with closing(Database(tmp_path / "foresight.sqlite")) as database:
        chats = Chats(database)
        failures: list[Exception] = []

        def talk(name: str) -> None:
            try:
                place = chats.create(title=name)
                for number in range(25):
                    place, _ = answer(chats, place, f"{name} asks {number}", f"{name} hears {number}")
                    assert chats.search(name)
            except Exception as error:
                failures.append(error)

        threads = [threading.Thread(target=talk, args=(name,)) for name in ("anna", "bert", "carl")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failures == []
        for line in chats.summaries():
            said = [message.text for message in chats.thread(line.id, 100).messages]
            assert said[-2:] == [f"{line.title} asks 24", f"{line.title} hears 24"]
            assert len(said) == 50
        assert database.damage() == ""


def test_of_two_pages_that_ask_at_once_one_is_told(tmp_path: Path) -> None:
    with (
        closing(Database(tmp_path / "f.sqlite")) as first,
        closing(Database(tmp_path / "f.sqlite")) as second,
    ):
        place = Chats(first).create()
        barrier, outcomes = threading.Barrier(2), []

        def ask(chats: Chats) -> None:
            barrier.wait()
            try:
                chats.ask(place, "Who?")
                outcomes.append("asked")
            except Exception as error:
                outcomes.append(type(error).__name__)

        threads = [threading.Thread(target=ask, args=(Chats(database),)) for database in (first, second)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(outcomes) == ["StaleChat", "asked"]
        assert len(Chats(first).thread(place.chat).messages) == 2
