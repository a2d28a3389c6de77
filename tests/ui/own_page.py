"""A page of its own for each test, with what it shows: browser tests import these fixtures."""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from app.ui import Running, Services, serve
from tests.fake_documents import ScriptedDocuments
from tests.fake_models import ScriptedModels
from tests.fakes import ScriptedEngine
from tests.page_driver import PageDriver
from tests.ui.conftest import context_of, open_services

__all__ = ["documents", "engine", "engine_class", "opened", "person", "running", "services"]


class Opened:
    """A page, its server and what these show."""

    def __init__(
        self, browser: Any, folders: pytest.TempPathFactory, make_engine: type[ScriptedEngine]
    ) -> None:
        self._open = ExitStack()
        self.engine, self.documents = make_engine(), ScriptedDocuments()
        place, enter = folders.mktemp("page"), self._open.enter_context
        self.services = enter(open_services(self.engine, ScriptedModels(), self.documents, place))
        self.running = serve(self.services, context_of(place), port=0, open_browser=False)
        self._open.callback(self.running.close)
        self.driver = enter(PageDriver(browser, self.running.url))

    def __enter__(self) -> "Opened":
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()


@pytest.fixture(scope="module")
def engine_class() -> type[ScriptedEngine]:
    return ScriptedEngine


@pytest.fixture
def opened(
    browser: Any, tmp_path_factory: pytest.TempPathFactory, engine_class: type[ScriptedEngine]
) -> Iterator[Opened]:
    with Opened(browser, tmp_path_factory, engine_class) as page:
        yield page


@pytest.fixture
def engine(opened: Opened) -> ScriptedEngine:
    return opened.engine


@pytest.fixture
def documents(opened: Opened) -> ScriptedDocuments:
    return opened.documents


@pytest.fixture
def services(opened: Opened) -> Services:
    return opened.services


@pytest.fixture
def running(opened: Opened) -> Running:
    return opened.running


@pytest.fixture
def person(opened: Opened) -> Iterator[PageDriver]:
    """A person in front of the page. Whatever happens, the page stays quiet and asks nobody else."""
    yield opened.driver
    assert opened.driver.complaints == []
    assert opened.driver.foreign == []
