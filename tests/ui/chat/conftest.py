"""People at the services."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from app.settings import Settings, SettingsFile
from app.ui import Services
from tests.fake_models import ScriptedModels
from tests.fakes import FakeDocumentSearch, ScriptedEngine
from tests.ui.chat.people import UnsteadyConversations, Visitor


@pytest.fixture
def person(services: Services) -> Visitor:
    return Visitor(services)


@pytest.fixture
def other(services: Services) -> Visitor:
    """Somebody at another page."""
    return Visitor(services)


@pytest.fixture
def unsteady(
    services: Services, engine: ScriptedEngine, models: ScriptedModels, tmp_path: Path
) -> Iterator[Services]:
    """The same chats in services that cannot read them for a while."""
    stores = services.conversations.stores
    with closing(UnsteadyConversations(engine, stores, FakeDocumentSearch())) as conversations:
        yield Services(
            conversations,
            engine,
            models,
            services.race,
            services.documents,
            SettingsFile(tmp_path),
            Settings(),
            services.servers,
        )
