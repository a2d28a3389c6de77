"""One page for all tests of a file: to open one takes three seconds of a processor.

Files that share one import these fixtures. Each test finds a new chat, nothing on the console, an engine that says
what it says by default, and the default settings: after a test that changed them there is a page of its own."""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from app.settings import Settings
from app.ui import Running, Services, serve
from tests.fake_documents import ScriptedDocuments
from tests.fake_models import ScriptedModels
from tests.fakes import ScriptedEngine
from tests.page_driver import LAPTOP, PageDriver
from tests.ui.conftest import context_of, open_services

__all__ = ["documents", "engine", "engine_class", "opened", "person", "running", "services", "shared"]


PATIENCE = 20_000
"""Milliseconds for each part of beginning anew. After that there is another page, which costs a few seconds."""


class SharedPage:
    """A page, its server and what these show; opened when it is asked for."""

    def __init__(
        self, browser: Any, folders: pytest.TempPathFactory, make_engine: type[ScriptedEngine]
    ) -> None:
        self._browser, self._folders, self._make_engine = browser, folders, make_engine
        self._open = ExitStack()
        self.is_open = False

    def __enter__(self) -> "SharedPage":
        return self

    def __exit__(self, *_: object) -> None:
        self.is_open = False
        self._open.close()

    def ready(self) -> "SharedPage":
        """As a new page is: this one, or another one after changed settings or if this one has no rest."""
        if not (self.is_open and self.services.settings == Settings() and self._has_begun_anew()):
            self._open.close()
            self._start()
        return self

    def _start(self) -> None:
        self.engine, self.documents = self._make_engine(), ScriptedDocuments()
        place, enter = self._folders.mktemp("page"), self._open.enter_context
        self.services = enter(open_services(self.engine, ScriptedModels(), self.documents, place))
        self.running = serve(self.services, context_of(place), port=0, open_browser=False)
        self._open.callback(self.running.close)
        self.driver = enter(PageDriver(self._browser, self.running.url))
        self.is_open = True

    def _has_begun_anew(self) -> bool:
        from playwright.sync_api import TimeoutError as NotReached

        try:
            self._begin_anew()
        except NotReached:
            return False
        return True

    def _begin_anew(self) -> None:
        page = self.driver.page
        self.engine.begin_anew()
        page.unroute_all()
        page.set_viewport_size(LAPTOP)
        page.emulate_media(color_scheme="light", reduced_motion="no-preference")
        page.keyboard.press("Escape")
        page.click("#to-chat", timeout=PATIENCE)
        page.click("#new-chat", timeout=PATIENCE)
        page.wait_for_selector("body[data-view=chat]:not([data-is-busy]) #welcome", timeout=PATIENCE)
        self.documents.begin_anew()
        self.driver.complaints.clear()
        self.driver.foreign.clear()


@pytest.fixture(scope="module")
def engine_class() -> type[ScriptedEngine]:
    return ScriptedEngine


@pytest.fixture(scope="module")
def opened(
    browser: Any, tmp_path_factory: pytest.TempPathFactory, engine_class: type[ScriptedEngine]
) -> Iterator[SharedPage]:
    with SharedPage(browser, tmp_path_factory, engine_class) as page:
        yield page


@pytest.fixture
def shared(opened: SharedPage) -> SharedPage:
    return opened.ready()


@pytest.fixture
def engine(shared: SharedPage) -> ScriptedEngine:
    return shared.engine


@pytest.fixture
def documents(shared: SharedPage) -> ScriptedDocuments:
    return shared.documents


@pytest.fixture
def services(shared: SharedPage) -> Services:
    return shared.services


@pytest.fixture
def running(shared: SharedPage) -> Running:
    return shared.running


@pytest.fixture
def person(shared: SharedPage) -> Iterator[PageDriver]:
    """A person in front of the page. Whatever happens, the page stays quiet and asks nobody else."""
    yield shared.driver
    assert shared.driver.complaints == []
    assert shared.driver.foreign == []
