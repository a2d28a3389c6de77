"""A page follows its chat: what is drawn again, and when."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.chats.chats import Chats
from app.conversation import ChatStores, Conversations
from app.database.database import MEMORY, Database
from app.settings import SettingsFile
from app.ui import Services
from app.ui.chat.chat_settings import ChatSettingsActions
from app.ui.chat.state import SentTexts
from app.ui.frame.page_updates import Parts, PolledRenderer
from app.values.chat import ChatSettings
from app.values.chat_format import DEFAULT_THINKING, Thinking
from app.values.messages import Message
from tests.fakes import FakeDocumentSearch, NarrowChats, ScriptedEngine, WordReader, chat_tools
from tests.ui.chat.people import SKIPPED, UnsteadyConversations, Visitor
from tests.ui.conftest import services_like
from tests.ui.streaming import frames, frames_until


def sent(*texts: str) -> SentTexts:
    sent_texts = SentTexts()
    for text in texts:
        sent_texts.add(text)
    return sent_texts


def test_what_was_sent_comes_back_however_late() -> None:
    sent_texts = sent("B", "Be", "Be k")
    assert sent_texts.has("Be") and sent_texts.has("Be") and sent_texts.has("Be k")


def test_what_nobody_sent_here_is_somebody_elses() -> None:
    assert not sent("B").has("Hush")
    assert not SentTexts().has("")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[NarrowChats]:
    with closing(Database(tmp_path / "narrow.db")) as database:
        yield NarrowChats(database)


@pytest.fixture
def squeezed(
    services: Services, store: NarrowChats, engine: ScriptedEngine, tmp_path: Path
) -> Iterator[Visitor]:
    """A person whose answers do not get onto the disk."""
    with (
        closing(Database(MEMORY)) as memory,
        closing(
            Conversations(engine, ChatStores(store, Chats(memory)), FakeDocumentSearch(), chat_tools())
        ) as conversations,
    ):
        file = SettingsFile(tmp_path)
        yield Visitor(services_like(services, conversations, file))


def test_it_stays_in_sight_and_is_told_until_it_is_stored(squeezed: Visitor, store: NarrowChats) -> None:
    squeezed.get("One")
    screen = squeezed.look()
    assert "Hello there" in "".join(screen.live) and "Hello there" not in screen.thread
    assert "free some space. The reply above is not saved" in screen.note and not screen.is_busy
    assert squeezed.ask("Two") == (SKIPPED, "")
    assert squeezed.heard == ["The disk is full: free some space."]
    store.is_full = False
    squeezed.get("Two")
    screen = squeezed.look()
    assert (screen.live, screen.note) == ((), "")
    assert squeezed.texts[::2] == ["One", "Two"]
    assert screen.thread.count("Hello there, friend.</p>") == 2


def test_a_page_that_is_opened_later_sees_it_too(squeezed: Visitor) -> None:
    squeezed.get("One")
    late = Visitor(squeezed.services)
    late.state.open_chat(squeezed.state.version)
    assert late.look().note == squeezed.look().note
    assert late.look().live == squeezed.look().live


def view_of(person: Visitor) -> PolledRenderer:
    return PolledRenderer(person.renderer.render, person.renderer.is_slow, 0.0)


def instructions(person: Visitor) -> object:
    """By which the page knows whether its box is to be filled anew."""
    return person.look().system_prompt


def test_the_thread_is_not_drawn_again_while_a_reply_comes(person: Visitor, engine: ScriptedEngine) -> None:
    engine.step_limit, engine.text = 1, "word " * 60
    person.ask("hello")
    before, *screens = (screen.parts for screen in person.follow(engine))
    assert len(screens) > 6
    others = {"messages", "collection-picker", "chat-settings-of"}
    for then, now in zip([before, *screens], screens[:-1], strict=False):
        assert not {part for part in now if now[part] != then[part]} & others
    assert screens[-1]["messages"] != before["messages"]
    assert screens[-1]["chat-settings-of"] == before["chat-settings-of"], (
        "somebody may be typing instructions"
    )


def test_another_chat_brings_its_own_instructions_and_a_new_one_none(person: Visitor) -> None:
    person.state.settings = ChatSettings("Be brief.")
    before = instructions(person)
    person.actions.new_chat(person.state)
    assert instructions(person) != before
    assert person.settings.system == ""
    person.state.settings = ChatSettings("Be kind.")
    person.get("One")
    before, chat = instructions(person), person.state.version
    person.actions.new_chat(person.state)
    empty = instructions(person)
    assert empty != before and person.settings.system == ""
    person.state.open_chat(chat)
    assert instructions(person) != empty and person.settings.system == "Be kind."


def test_instructions_that_another_page_wrote_are_drawn_and_ones_own_are_not(
    person: Visitor, other: Visitor
) -> None:
    person.get("One")
    other.state.open_chat(person.state.version)
    mine, theirs = instructions(person), instructions(other)
    ChatSettingsActions(person.services, person.heard.append).change_system_prompt(person.state, "Be brief.")
    assert instructions(person) == mine, "somebody may be typing on"
    assert instructions(other) != theirs and other.settings.system == "Be brief."
    theirs = instructions(other)
    ChatSettingsActions(person.services, person.heard.append).change_system_prompt(person.state, "")
    assert instructions(other) != theirs and other.settings.system == ""


def test_a_page_that_is_opened_shows_the_chat_that_was_looked_at_last(
    person: Visitor, other: Visitor, engine: ScriptedEngine
) -> None:
    person.get("One")
    other.actions.open_last(other.state)
    assert "One" in other.look().thread
    assert other.ask("Two") == ("", "")
    assert len(engine.requests) == 2


def test_a_page_is_drawn_again_as_the_reply_comes(person: Visitor, engine: ScriptedEngine) -> None:
    engine.step_limit, engine.text = 1, "word after word " * 20
    person.ask("One")

    def is_fourth_of_reply(frame: dict[str, Any]) -> bool:
        if "live" in frame and frame["live"]["message"]:
            engine.step_limit += 1
        return engine.step_limit == 5

    seen = frames_until([view_of(person)], is_fourth_of_reply)
    live = [frame["live"] for frame in seen if "live" in frame]
    shown = [one for one in live if one["message"]]
    assert len(shown) >= 4
    assert {one["message"] for one in shown} == {person.messages[-1].id}, (
        "by which it knows what was opened in it"
    )
    assert len({str(one["blocks"]) for one in shown}) == len(shown)
    person.services.conversations.stop_all()


class NotingReader(WordReader):
    """Notes the threads on which it counts."""

    def __init__(self) -> None:
        super().__init__()
        self.threads: list[int] = []

    def count(self, prompt: Sequence[Message], thinking: Thinking = DEFAULT_THINKING, tools: str = "") -> int:
        self.threads.append(threading.get_ident())
        return super().count(prompt, thinking, tools)


def test_what_is_typed_is_counted_beside_the_event_loop(person: Visitor, engine: ScriptedEngine) -> None:
    reader = engine.words = NotingReader()
    person.actions.type(person.state, "one two three")
    *_, last = frames_until([view_of(person)], lambda frame: "5 of 1,024 tokens" in frame.get("meter", ""))
    assert last
    assert reader.threads and threading.get_ident() not in reader.threads


def test_a_page_that_cannot_be_read_says_so_and_looks_on(
    person: Visitor, engine: ScriptedEngine, unsteady: Services
) -> None:
    engine.step_limit = 1
    person.ask("One")
    conversations = unsteady.conversations
    assert isinstance(conversations, UnsteadyConversations)
    late = Visitor(unsteady)
    late.state.open_chat(person.state.version)

    def render() -> Parts:
        conversations.is_held = conversations.refused < 3
        return late.renderer.render()

    first, second = frames([replace(view_of(late), render=render)], 2)
    assert first == {"problem": "Another program holds the file."}
    assert "One" in second["messages"] and second["problem"] == ""
    person.services.conversations.stop_all()
