"""People at the desk."""

from pathlib import Path

import pytest

from app.settings import Settings, SettingsFile
from app.ui import Desk
from tests.fake_models import ScriptedModels
from tests.fakes import FakeLibrary, ScriptedEngine
from tests.ui.chat.people import UnsteadyConversations, Visitor


@pytest.fixture
def person(desk: Desk) -> Visitor:
    return Visitor(desk)


@pytest.fixture
def other(desk: Desk) -> Visitor:
    """Somebody at another page."""
    return Visitor(desk)


@pytest.fixture
def unsteady(desk: Desk, engine: ScriptedEngine, models: ScriptedModels, tmp_path: Path) -> Desk:
    """The same chats at a desk that cannot read them for a while."""
    conversations = UnsteadyConversations(engine, desk.conversations.book, FakeLibrary())
    return Desk(conversations, engine, models, desk.race, desk.documents, SettingsFile(tmp_path), Settings())
