"""A reply that the disk did not take, as a page sees it."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from app.chats import Chats
from app.conversation import ChatStores, Conversations
from app.database import MEMORY, Database
from app.settings import Settings, SettingsFile
from app.ui import Services
from tests.fake_models import ScriptedModels
from tests.fakes import FakeDocumentSearch, NarrowChats, ScriptedEngine
from tests.ui.chat.people import SKIPPED, Visitor


@pytest.fixture
def store(tmp_path: Path) -> Iterator[NarrowChats]:
    with closing(Database(tmp_path / "narrow.db")) as database:
        yield NarrowChats(database)


@pytest.fixture
def squeezed(
    services: Services, store: NarrowChats, engine: ScriptedEngine, models: ScriptedModels, tmp_path: Path
) -> Iterator[Visitor]:
    """A person whose answers do not get onto the disk."""
    with (
        closing(Database(MEMORY)) as memory,
        closing(
            Conversations(engine, ChatStores(store, Chats(memory)), FakeDocumentSearch())
        ) as conversations,
    ):
        file = SettingsFile(tmp_path)
        yield Visitor(
            Services(
                conversations,
                engine,
                models,
                services.race,
                services.documents,
                file,
                Settings(),
                services.servers,
            )
        )


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
