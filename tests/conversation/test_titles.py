"""Chats are titled by the model when it is idle, and keep their question's title otherwise."""

from collections.abc import Iterator
from contextlib import closing
from threading import Thread

import pytest

from app.chats.chats import Chats, ChatStores
from app.conversation import Conversations, NewChat, NewQuestion
from app.conversation.titles import ChatTitles, clean_title
from app.conversation.turn import ReplySettings
from app.database.database import MEMORY, Database
from app.values.chat import ChatVersion
from app.values.messages import ModelChoice, Options
from tests.fakes import FakeDocumentSearch, ScriptedEngine, chat_tools
from tests.support.waiting import new_threads, until

ASKED = ReplySettings(ModelChoice("demo"), Options(), titles_chats=True)


@pytest.fixture
def stores() -> Iterator[ChatStores]:
    with closing(Database(MEMORY)) as stored, closing(Database(MEMORY)) as private:
        yield ChatStores(Chats(stored), Chats(private))


@pytest.fixture
def others() -> list[Thread]:
    """Return the threads that ran before the test."""
    return new_threads([])


@pytest.fixture
def conversations(stores: ChatStores) -> Iterator[Conversations]:
    engine = ScriptedEngine()
    with closing(Conversations(engine, stores, FakeDocumentSearch(), chat_tools())) as opened:
        opened._titles = ChatTitles(engine, stores, lambda: opened.is_busy, seconds=0.0)
        engine.text = "Tables for two"
        yield opened


def until_titled(stores: ChatStores, title: str) -> None:
    until(lambda: [line.title for line in stores.summaries()] == [title])


def until_idle(others: list[Thread]) -> None:
    """Wait until all replies are recorded, and then until no title is being written."""
    for name in ("recorder", "title"):
        until(lambda name=name: all(thread.name != name for thread in new_threads(others)))


def test_a_new_chat_is_titled_after_its_first_answer(
    conversations: Conversations, stores: ChatStores
) -> None:
    place = conversations.start(NewChat(ChatVersion(), ASKED, "I want to book something"))
    until_titled(stores, "Tables for two")
    assert [message.role for message in conversations.thread(place.chat, 10).messages] == [
        "user",
        "assistant",
    ]


def test_the_request_has_no_thoughts_as_the_next_question_has_none(
    conversations: Conversations, stores: ChatStores
) -> None:
    engine: ScriptedEngine = conversations._titles._engine  # type: ignore[assignment]
    engine.text = "<think>\nHm.\n</think>\n\nA table"
    conversations.start(NewChat(ChatVersion(), ASKED, "I want to book something"))
    until_titled(stores, "A table")
    assert [message.content for message in engine.requests[-1].prompt][:2] == [
        "I want to book something",
        "A table",
    ]


def test_a_title_that_the_person_gave_stays(
    others: list[Thread], conversations: Conversations, stores: ChatStores
) -> None:
    place = conversations.start(NewChat(ChatVersion(), ASKED, "I want to book something"))
    stores.stored.rename(place.chat, "Mine")
    until_idle(others)
    assert [line.title for line in stores.summaries()] == ["Mine"]


def test_a_later_answer_titles_nothing(
    others: list[Thread], conversations: Conversations, stores: ChatStores
) -> None:
    plain = ReplySettings(ModelChoice("demo"), Options())
    place = conversations.start(NewChat(ChatVersion(), plain, "First question"))
    until_idle(others)
    conversations.start(NewQuestion(place, ASKED, "Second question"))
    until_idle(others)
    assert [line.title for line in stores.summaries()] == ["First question"]


@pytest.mark.parametrize(
    ("written", "title"),
    [
        ("Tables for two", "Tables for two"),
        (' "Tables for two." ', "Tables for two"),
        ("<think>\nHm.\n</think>\n\nTables for two\nand more", "Tables for two"),
        ("**Tables**", "Tables"),
        ("Title: Tables for two", "Tables for two"),
        ("", ""),
        ("I would be glad to help you with a title for this chat", ""),
        ("The lake: all that there is to see in summer and in winter", "The lake"),
        ("Here's a possible title for the conversation:\n\nThe lake", ""),
        ("Sure! Here is a title: The lake", ""),
        ("At the most five words, nothing else", ""),
        ("```python\n# No more than five words\n```", ""),
    ],
)
def test_what_is_no_title_is_not_taken(written: str, title: str) -> None:
    assert clean_title(written) == title
