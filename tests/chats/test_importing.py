"""Imports of large files and forks: nobody waits for them, and one that is cut off leaves whole chats."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import pytest

from app.chats.chats import Chats
from app.chats.importing import PIECE
from app.database.database import Database
from app.errors import ChatNotFound, ImportBroken, StaleChat
from app.values.chat import ChatSettings, ImportResult, MessageContent
from tests.chats.samples import answer, texts

CHECKOUT = Path(__file__).parents[2]
IMPORT = """
import sys
from pathlib import Path
from app.chats.chats import Chats
from app.database.database import Database

chats = Chats(Database(Path(sys.argv[1])))
print("ready", flush=True)
chats.import_json(Path(sys.argv[2]).read_text())
"""


def file_of(lengths: list[int], words: int = 40, created: float | None = None) -> str:
    """A file of chats with so many messages."""
    text = "several words " * (words // 2)
    return json.dumps(
        {
            "chats": [
                {
                    "title": f"Chat {number}",
                    "folder": f"Folder {number}",
                    "created": 1000.0 + number if created is None else created,
                    "messages": [
                        {
                            "id": at,
                            "parent": at - 1,
                            "role": "user",
                            "text": f"{number} {at} {text}",
                            "created": at,
                        }
                        for at in range(1, length + 1)
                    ],
                }
                for number, length in enumerate(lengths)
            ]
        }
    )


@pytest.fixture
def statements(chats: Chats) -> Iterator[list[str]]:
    """What is asked of the database from now on."""
    heard: list[str] = []
    with chats.database.reading() as connection:
        connection.set_trace_callback(heard.append)
    yield heard


def transactions(statements: list[str]) -> list[list[str]]:
    """The statements of each transaction that writes."""
    begins = [at for at, one in enumerate(statements) if one == "BEGIN IMMEDIATE"]
    return [statements[first:last] for first, last in pairwise([*begins, len(statements)])]


def test_no_transaction_of_an_import_writes_much(chats: Chats, statements: list[str]) -> None:
    assert chats.import_json(file_of([1] * 40 + [500], words=400)) == ImportResult(41, 0)
    written = [
        sum(len(one) for one in each if one.startswith("INSERT INTO message ("))
        for each in transactions(statements)
    ]
    assert sum(written) > 10 * PIECE
    assert max(written) < 1.5 * PIECE
    assert len(chats.thread(chats.summaries()[0].id, 1000).messages) == 500


def test_no_transaction_that_erases_chats_deletes_much(chats: Chats, statements: list[str]) -> None:
    chats.import_json(file_of([300, 2, 3]))
    statements.clear()
    chats.delete_all()
    deleted = [
        len({one for one in each if one.startswith("DELETE FROM message WHERE")})
        for each in transactions(statements)
    ]
    assert (sum(deleted), max(deleted)) == (305, 100)
    assert chats.summaries() == ()


def test_a_reply_is_saved_between_the_pieces_of_an_import(chats: Chats) -> None:
    _, reply = chats.ask(chats.create(), "Why?")
    saved: list[int] = []

    def save(done: int, _all: int) -> None:
        chats.write(reply, MessageContent("word " * done))
        saved.append(len(chats.summaries()))

    chats.import_json(file_of([60] * 8, words=400), save)
    assert saved == sorted(saved) and len(set(saved)) > 3, "chats are listed while others are read"


def test_a_chat_and_its_folder_are_shown_with_its_last_message_only(chats: Chats) -> None:
    seen: list[object] = []

    def look(_done: int, _all: int) -> None:
        seen.append((chats.folders(), chats.summaries(), chats.search("several")))
        with chats.database.reading() as connection:
            seen.append(connection.execute("SELECT count(*) FROM message").fetchone()[0] > 0)

    chats.import_json(file_of([500, 1]), look)
    nothing: tuple[object, ...] = ((), (), ())
    assert seen == [nothing, False, nothing, True]
    assert chats.folders() == ("Folder 0", "Folder 1")


def test_an_import_whose_chat_is_erased_says_so_and_leaves_whole_chats(chats: Chats) -> None:
    file = file_of([300, 300, 300])

    def start_elsewhere(done: int, _all: int) -> None:
        if done == 2:
            chats.purge()

    with pytest.raises(ImportBroken, match="was interrupted"):
        chats.import_json(file, start_elsewhere)
    assert all(len(chats.thread(one.id, 1000).messages) == 300 for one in chats.summaries())
    here = len(chats.summaries())
    assert chats.import_json(file) == ImportResult(3 - here, here)


def test_a_file_that_is_broken_at_its_end_brings_nothing(chats: Chats) -> None:
    for broken in (file_of([1, 2])[:-3], file_of([1, 2]) + "}", file_of([1, 2])[:-1] + ', "version": 99}'):
        with pytest.raises(ImportBroken):
            chats.import_json(broken)
    assert chats.summaries() == ()


def test_a_copy_is_known_by_the_chat_that_is_nearest_to_it(chats: Chats) -> None:
    copies = file_of([4, 2, 2, 3, 0, 0], created=7.0).replace('"text": "0 ', '"text": "').replace("Chat", "C")
    same = json.loads(copies)
    for chat in same["chats"]:
        for message in chat["messages"]:
            message["text"] = f"message {message['id']}"
    assert chats.import_json(json.dumps(same)) == ImportResult(6, 0)
    assert chats.import_json(json.dumps(same)) == ImportResult(0, 6)
    same["chats"].append(same["chats"][0])
    assert chats.import_json(json.dumps(same)) == ImportResult(1, 6)


@pytest.mark.parametrize("seconds", [0.05, 0.3, 0.8])
def test_an_import_that_is_killed_leaves_whole_chats_and_goes_on_when_it_is_repeated(
    tmp_path: Path, seconds: float
) -> None:
    lengths = [150, 1, 400, 20, 300] * 3
    file, path = tmp_path / "chats.json", tmp_path / "foresight.sqlite"
    file.write_text(file_of(lengths), encoding="utf-8")
    with subprocess.Popen(
        [sys.executable, "-c", IMPORT, str(path), str(file)], cwd=CHECKOUT, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None and child.stdout.readline() == b"ready\n"
        time.sleep(seconds)
        child.kill()
    with closing(Database(path)) as database:
        chats = Chats(database)
        here = chats.summaries()
        for one in here:
            assert len(chats.thread(one.id, 1000).messages) == lengths[int(one.title.split()[1])]
        assert chats.import_json(file.read_text()) == ImportResult(len(lengths) - len(here), len(here))
        chats.purge(60)
        with database.reading() as connection:
            assert connection.execute("SELECT count(*) FROM message").fetchone()[0] == sum(lengths)
            assert connection.execute("SELECT count(*) FROM chat").fetchone()[0] == len(lengths)
        assert database.damage() == ""


def test_how_far_an_import_has_come_is_told(chats: Chats) -> None:
    seen: list[tuple[int, int]] = []
    chats.import_json(file_of([1, 2, 3]), lambda *_: seen.append(chats.import_progress))
    assert seen == [(0, 3), (1, 3), (2, 3)]
    assert chats.import_progress == (0, 0)
    with pytest.raises(ImportBroken):
        chats.import_json("{")
    assert chats.import_progress == (0, 0)


def test_a_fork_has_the_messages_down_to_one_and_leaves_its_chat_alone(chats: Chats) -> None:
    place, first = answer(chats, chats.create(ChatSettings("Be brief.")), "Why?", "So.")
    answer(chats, place, "And?", "That.")
    before = chats.thread(place.chat)
    forked = chats.fork(place.chat, first)
    assert texts(chats, forked.chat) == ["Why?", "So."]
    assert chats.settings(forked.chat).system == "Be brief."
    origin = chats.thread(forked.chat).forked_from
    assert origin and (origin.id, origin.title) == (place.chat, "Why?") and before.forked_from is None
    answer(chats, chats.thread(forked.chat).version, "But?", "No.")
    assert chats.thread(place.chat) == before
    chats.delete(place.chat)
    assert chats.thread(forked.chat).forked_from is None


def test_chats_never_have_the_same_title(chats: Chats) -> None:
    places = [answer(chats, chats.create(), "Why?", "So.") for _ in range(3)]
    chats.fork(places[0][0].chat, places[0][1])
    titles = [summary.title for summary in chats.summaries()]
    assert sorted(titles) == ["Why?", "Why? (2)", "Why? (3)", "Why? (4)"]
    chats.rename(places[1][0].chat, "Mine")
    assert "Mine" in [summary.title for summary in chats.summaries()]


def test_what_is_gone_or_out_of_date_is_refused(chats: Chats) -> None:
    place, reply = answer(chats, chats.create(), "Why?", "So.")
    newer = chats.remove(place, reply)
    with pytest.raises(StaleChat):
        chats.remove(place, reply)
    for action in (lambda: chats.remove(newer, reply), lambda: chats.fork(place.chat, reply)):
        with pytest.raises(ChatNotFound):
            action()


def test_a_chat_of_thousands_of_messages_is_forked_and_cut_short(chats: Chats) -> None:
    place = chats.create(folder="Work")
    for number in range(1_100):
        place, last = chats.add(place, "user", f"Message {number}")
    forked = chats.fork(place.chat, last)
    assert len(chats.thread(forked.chat, 9_999).messages) == 1_100
    second = chats.thread(place.chat, 9_999).messages[1].id
    place = chats.remove(place, second)
    assert texts(chats, place.chat) == ["Message 0"]
    chats.purge(60)
    assert [found.summary.id for found in chats.search("Message 1099")] == [forked.chat]
    with chats.database.reading() as connection:
        assert connection.execute("SELECT count(*) FROM message").fetchone()[0] == 1_101
        assert connection.execute("SELECT count(*) FROM chat").fetchone()[0] == 2


def test_a_fork_whose_original_is_erased_meanwhile_is_none(chats: Chats) -> None:
    place, reply = answer(chats, chats.create(), "Why?", "So.")
    chats.delete(place.chat)
    with pytest.raises(ChatNotFound):
        chats.fork(place.chat, reply)
