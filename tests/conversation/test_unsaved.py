"""Replies that the disk did not take: they are told, kept while the app lives, and stored as soon as can be."""

from collections.abc import Iterator
from contextlib import closing
from time import monotonic, sleep

import pytest

from app.chats import Chats
from app.conversation import ChatStores, Conversations
from app.database import MEMORY, Database
from app.errors import StoreFull
from tests.conversation.people import PatientEngine, Person
from tests.fakes import FakeDocumentSearch, NarrowChats


@pytest.fixture
def narrow(database: Database) -> NarrowChats:
    return NarrowChats(database)


@pytest.fixture
def squeezed(engine: PatientEngine, narrow: NarrowChats) -> Iterator[Person]:
    """A person whose answers do not get onto the disk."""
    with closing(Database(MEMORY)) as memory:
        yield Person(Conversations(engine, ChatStores(narrow, Chats(memory)), FakeDocumentSearch()), engine)


def test_a_reply_that_could_not_be_stored_is_told_and_stored_before_the_chat_goes_on(
    squeezed: Person, narrow: NarrowChats, engine: PatientEngine
) -> None:
    squeezed.ask("One?", "Two.")
    assert squeezed.chats.problem(squeezed.place.chat) == "The disk is full: free some space."
    assert squeezed.texts == ["One?", ""]
    with pytest.raises(StoreFull):
        squeezed.ask("Three?")
    assert len(engine.requests) == 1, "nothing was sent"
    narrow.is_full = False
    squeezed.ask("Three?", "Four.")
    assert engine.read() == [("user", "One?"), ("assistant", "Two."), ("user", "Three?")]
    assert squeezed.texts == ["One?", "Two.", "Three?", "Four."]
    assert squeezed.chats.problem(squeezed.place.chat) == ""


def test_closing_tries_once_more_to_store_a_reply(squeezed: Person, narrow: NarrowChats) -> None:
    squeezed.ask("One?", "Two.")
    squeezed.chats.close()
    assert squeezed.texts == ["One?", ""], "the disk is still full, and that ends nothing"
    narrow.is_full = False
    squeezed.chats.close()
    assert squeezed.texts == ["One?", "Two."]


def test_closing_waits_but_a_moment_for_an_engine_that_hangs_and_what_it_wrote_is_stored(
    squeezed: Person, narrow: NarrowChats, engine: PatientEngine
) -> None:
    narrow.is_full = False
    person = squeezed
    person.ask("One?")
    engine.say("As far as")
    deadline = monotonic() + 10
    while person.texts != ["One?", "As far as"]:
        assert monotonic() < deadline
        sleep(0.01)
    began = monotonic()
    person.chats.close()
    assert monotonic() - began < 2
    engine.end()
    person.wait()
