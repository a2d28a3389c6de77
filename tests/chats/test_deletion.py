"""Forgetting deleted chats: what is left of them on the disk, however often that is cut short."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from random import Random

import pytest

from app.chats.chats import Chats
from app.chats.deletion import INDEXES
from app.database.database import Database, database_in
from app.errors import ChatNotFound
from app.values.chat import ChatSettings, MessageContent

RARE = "jqxwzkvb"
"""A word that no other text has a part of."""


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    with closing(database_in(tmp_path)) as opened:
        yield opened


@pytest.fixture
def chats(database: Database) -> Chats:
    """A library whose index of words has several segments, and one chat that is to be forgotten."""
    chats, chance = Chats(database), Random(4)
    for number in range(120):
        write(chats, f"Chat {number}", " ".join(f"{chance.randrange(10**6):x}" for _ in range(60)))
        if number == 60:
            write(chats, f"About {RARE}", f"It is {RARE}, and {RARE} again. " * 400)
    return chats


def write(chats: Chats, title: str, text: str) -> int:
    place, reply = chats.begin(ChatSettings(system=text), text)
    chats.write(reply, MessageContent(text, "done"))
    chats.rename(place.chat, title)
    return place.chat


def delete(chats: Chats) -> int:
    (found,) = chats.search(RARE)
    chats.delete(found.summary.id)
    return found.summary.id


def left(folder: Path) -> list[str]:
    """The files that still hold a part of the word: FTS5 leaves out what a word shares with the one before."""
    return [file.name for file in sorted(folder.iterdir()) if RARE[2:].encode() in file.read_bytes()]


def rows(database: Database) -> int:
    with database.reading() as connection:
        return int(connection.execute("SELECT count(*) FROM chat").fetchone()[0])


def test_of_a_forgotten_chat_no_word_is_left_in_any_file_while_others_have_it_open(
    chats: Chats, database: Database, tmp_path: Path
) -> None:
    with closing(database_in(tmp_path)):  # SQLite keeps what is beside the file until the last one closes it
        assert left(tmp_path)
        delete(chats)
        chats.purge()
        assert left(tmp_path) == []
    assert rows(database) == 120
    assert database.damage() == ""


def test_forgetting_that_is_cut_short_goes_on_the_next_time(
    chats: Chats, database: Database, tmp_path: Path
) -> None:
    chat = delete(chats)
    chats.purge(seconds=0)
    assert rows(database) == 121, "an empty row remembers that there are words left"
    with pytest.raises(ChatNotFound):
        chats.restore(chat)
    with database.writing() as connection:
        for index in INDEXES:  # a first step only, as in a library that is too large for one run
            connection.execute(f"INSERT INTO {index} ({index}, rank) VALUES ('merge', -1)")
        connection.execute("UPDATE chat SET deleted = 0 WHERE deleted = -1")
    chats.delete(write(chats, "Later", f"More {RARE}"))
    chats.purge(seconds=60)
    assert (rows(database), left(tmp_path)) == (120, [])


def test_a_chat_that_is_deleted_while_others_are_forgotten_can_be_restored(chats: Chats) -> None:
    delete(chats)
    chats.purge(seconds=0)
    later = write(chats, "Later", "Wait")
    chats.delete(later)
    chats.restore(later)
    chats.purge()
    assert chats.search("Later")[0].summary.id == later


def test_of_a_deleted_message_no_word_is_left_once_it_is_erased(chats: Chats, tmp_path: Path) -> None:
    place, _ = chats.add(chats.create(title="Later"), "user", "Wait")
    place, secret = chats.add(place, "assistant", f"It is {RARE}. " * 50)
    place, _ = chats.add(place, "user", f"More about {RARE}")
    delete_others = [found.summary.id for found in chats.search(RARE) if found.summary.id != place.chat]
    chats.remove(place, secret)
    for chat in delete_others:
        chats.delete(chat)
    assert chats.search(RARE) == () and left(tmp_path)
    chats.purge(seconds=60)
    assert left(tmp_path) == []


def test_messages_of_a_deleted_chat_are_erased_with_it(chats: Chats, database: Database) -> None:
    place, last = chats.create(title="Long"), 0
    messages = []
    for number in range(1_200):
        place, last = chats.add(place, "user", f"Message {number}")
        messages.append(last)
    chats.remove(place, messages[3])
    chats.delete(place.chat)
    chats.purge(seconds=60)
    assert rows(database) == 121
    assert database.damage() == ""
