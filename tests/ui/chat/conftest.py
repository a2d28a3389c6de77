"""People at the services."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from app.settings import SettingsFile
from app.ui import Services
from tests.fakes import FakeDocumentSearch, ScriptedEngine, chat_tools
from tests.page_driver import PageDriver
from tests.ui.chat.people import UnsteadyConversations, Visitor
from tests.ui.conftest import services_like


@pytest.fixture
def person(request: pytest.FixtureRequest, services: Services) -> Visitor | PageDriver:
    """A visitor of the services, or in tests with a browser the person in front of the page."""
    if request.node.get_closest_marker("browser"):
        driver: PageDriver = request.getfixturevalue("page_driver")
        return driver
    return Visitor(services)


@pytest.fixture
def other(services: Services) -> Visitor:
    """Somebody at another page."""
    return Visitor(services)


@pytest.fixture
def unsteady(services: Services, engine: ScriptedEngine, tmp_path: Path) -> Iterator[Services]:
    """The same chats in services that cannot read them for a while."""
    stores = services.conversations.stores
    with closing(UnsteadyConversations(engine, stores, FakeDocumentSearch(), chat_tools())) as conversations:
        yield services_like(services, conversations, SettingsFile(tmp_path))
