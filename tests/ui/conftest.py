"""Services with a scripted engine, and a page that shows it."""

import os
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from starlette.responses import PlainTextResponse

from app.api.access import AccessCheck, ApiSwitch
from app.api.api_key import KeyFile
from app.chats.chats import Chats
from app.conversation import ChatStores, Conversations
from app.conversation.race.race import Race
from app.conversation.race.race_log import RaceLog
from app.database.database import MEMORY, Database
from app.remote import Servers
from app.settings import Settings, SettingsFile
from app.system.network_log import NetworkLog
from app.ui import AppContext, Running, Services, prepare_environment, serve
from app.ui.frame.theme import head
from tests.fake_documents import ScriptedDocuments
from tests.fake_models import ScriptedModels
from tests.fakes import ScriptedEngine, chat_tools
from tests.page_driver import PageDriver, watched
from tests.support.app_process import free_port
from tests.support.waiting import PATIENCE, until


@pytest.fixture(scope="session", autouse=True)
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The environment as main prepares it before Gradio is used."""
    before = dict(os.environ)
    prepare_environment(os.environ, tmp_path_factory.mktemp("data"))
    yield
    os.environ.clear()
    os.environ.update(before)


@pytest.fixture
def uploads(tmp_path: Path) -> Path:
    """A place among the files that were uploaded to the page, with another one in it."""
    place = Path(os.environ["GRADIO_TEMP_DIR"]) / tmp_path.name
    place.mkdir(parents=True)
    (place / "another").touch()
    return place


@contextmanager
def open_services(
    engine: ScriptedEngine, models: ScriptedModels, documents: ScriptedDocuments, data_dir: Path
) -> Iterator[Services]:
    """Services as main makes them: real stores for chats, and the rest does as it is told.

    At the end every reply is ended and stored before the stores close."""
    with (
        closing(Database(data_dir / "foresight.db")) as database,
        closing(Database(MEMORY)) as memory,
        closing(
            Conversations(engine, ChatStores(Chats(database), Chats(memory)), documents, chat_tools())
        ) as conversations,
    ):
        file, servers = SettingsFile(data_dir), Servers(data_dir)
        race = Race(engine, lambda: conversations.is_busy, RaceLog(database), str.upper)
        yield Services(conversations, engine, models, race, documents, file, Settings(), servers)
        race.close(PATIENCE)
        conversations.queue.close()
        engine.close()
        until(lambda: not conversations.is_busy)


def services_like(services: Services, conversations: Conversations, file: SettingsFile) -> Services:
    """The same services with other conversations or another file of settings, and with the default settings."""
    engine, models, race = services.engine, services.models, services.race
    others = services.documents, file, Settings(), services.servers
    return Services(conversations, engine, models, race, *others)


@pytest.fixture
def engine() -> ScriptedEngine:
    return ScriptedEngine()


@pytest.fixture
def models() -> ScriptedModels:
    return ScriptedModels()


@pytest.fixture
def documents() -> ScriptedDocuments:
    return ScriptedDocuments()


@pytest.fixture
def services(
    engine: ScriptedEngine, models: ScriptedModels, documents: ScriptedDocuments, tmp_path: Path
) -> Iterator[Services]:
    with open_services(engine, models, documents, tmp_path) as opened:
        yield opened


@pytest.fixture
def app_context(tmp_path: Path) -> AppContext:
    return context_of(tmp_path)


def context_of(data_dir: Path) -> AppContext:
    """The app's folders, and an API that lists no model to who has its key."""
    log = data_dir / "foresight.log"
    api = ApiSwitch(lambda key: AccessCheck(PlainTextResponse("{}"), key), KeyFile(data_dir))
    return AppContext(data_dir, data_dir / "hub", log, NetworkLog({}), api)


def key_of(running: Running) -> dict[str, str]:
    """The header by which a program shows the page's key."""
    return {"Authorization": f"Bearer {running.endpoint.key}"}


@pytest.fixture(scope="session")
def page_port() -> int:
    """A port for the pages of all tests, because a browser compiles the same scripts anew for each address."""
    return free_port()


@pytest.fixture
def running(services: Services, app_context: AppContext, page_port: int) -> Iterator[Running]:
    """The services' page, served on the usual port of these tests or the next free one."""
    page = serve(services, app_context, page_port, open_browser=False)
    yield page
    page.close()


@pytest.fixture(scope="module")
def shared_documents() -> ScriptedDocuments:
    return ScriptedDocuments()


@pytest.fixture(scope="module")
def shared(
    tmp_path_factory: pytest.TempPathFactory, shared_documents: ScriptedDocuments
) -> Iterator[Running]:
    """One page for all tests of a module that do not mind each other: it takes a second to build."""
    data_dir = tmp_path_factory.mktemp("data")
    with open_services(ScriptedEngine(), ScriptedModels(), shared_documents, data_dir) as services:
        page = serve(services, context_of(data_dir), port=0, open_browser=False)
        yield page
        page.close()


@pytest.fixture
def page_driver(browser: Any, running: Running) -> Iterator[PageDriver]:
    with watched(browser, running.url) as driver:
        yield driver


@pytest.fixture
def person(page_driver: PageDriver) -> PageDriver:
    return page_driver


@pytest.fixture(scope="module")
def script_tab(browser: Any) -> Iterator[Any]:
    """One tab for all tests of a module that need no server, because a new one costs the browser two processes."""
    page = browser.new_page()
    page.set_default_timeout(5000)
    yield page
    page.close()


@pytest.fixture
def script_page(script_tab: Any) -> Callable[[str], Any]:
    """Opens a page that has the app's scripts, with a body of the test's own and without a server."""

    def opened(body: str) -> Any:
        script_tab.goto("about:blank")  # scripts of the last test do not run on
        script_tab.mouse.move(0, 0)
        script_tab.set_content(f"<head>{head({})}</head><body>{body}</body>")
        return script_tab

    return opened
