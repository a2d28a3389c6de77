"""The window's parts, put together: stores, engine, library and page, from start to end."""

from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit

import typer

from app.chats import Chats
from app.conversation import ChatStores, Conversations
from app.conversation.embedder import EngineEmbedder
from app.conversation.race import Race
from app.database import MEMORY, Database, database_in
from app.desktop.log_file import log_path, write_log
from app.desktop.window import show_window
from app.documents import Documents
from app.engine import Engine
from app.errors import StoreError, impossible_values
from app.machine_name import machine_name
from app.messages import Locate, ModelFolder, Progress
from app.network_log import HUB_WHY, NetworkLog
from app.races import RaceLog
from app.settings import DataFolder, Settings, SettingsFile
from app.shutdown import SECONDS, end_within
from app.ui import AppContext, Running, Services, discard_all, serve

CLOSING_SECONDS = 0.2
"""How long the end waits for each thread that was told before to leave off; all of it takes two at most."""


@dataclass(frozen=True, slots=True)
class Opening:
    """How the page is opened: at which port, in the browser or not, in a window of its own or not, and whether it
    asks for a token."""

    port: int
    in_browser: bool
    is_native: bool
    has_token: bool = True


def run_window(folder: DataFolder, opening: Opening, model: str | None, network_log: NetworkLog) -> None:
    """Show the page until the person ends it. Raises AppError where something is not as it must be."""
    # The hub's client reads its environment while it is imported: see main.
    from app.models_registry import ModelLibrary, folder_here, locate

    file = SettingsFile(folder.path)
    settings = _chosen(file.load(), model)
    models = ModelLibrary(folder.path, settings.library)
    log = log_path(folder.path)
    write_log(log)
    discard_all(folder.path)
    network_log.explain(
        urlsplit(models.hub.address).hostname or "", HUB_WHY
    )  # the person may use another hub

    def located(name: str, progress: Progress) -> ModelFolder:
        return locate(name, progress, models.hub)  # asked at every load: it may have been switched off

    def embedding_model() -> ModelFolder | None:
        return folder_here(settings.library.embedder, models.hub)  # it may come while the window is open

    with (
        closing(database_in(folder.path)) as database,
        open_chatbook(database) as book,
        closing(models),
        _engine(located, folder.path / "steps") as engine,
        closing(Documents(database, folder.path, EngineEmbedder(engine, embedding_model))) as documents,
        closing(Conversations(engine, book, documents)) as conversations,
    ):
        app_context = AppContext(folder.path, models.hub.root, log, network_log, database, database.note)
        race = Race(engine, lambda: conversations.is_busy, RaceLog(database), machine_name)
        services = Services(conversations, engine, models, race, documents, file, settings)
        in_browser = opening.in_browser and not opening.is_native
        page = serve(services, app_context, opening.port, in_browser, opening.is_native, opening.has_token)
        folder.announce(page.url)
        typer.echo(page.note or f"Foresight is at {page.url}")
        typer.echo("Close its window to end it." if opening.is_native else "End it with Ctrl+C.")
        # Only now: torch takes longer to import than the page takes to answer.
        engine.load(settings.model)
        try:
            _stay(page, folder, opening)
        finally:
            end_within(SECONDS, log)
            race.stop()
            engine.stop()  # ends the replies under way, which are then stored as far as they are
            page.close()
            race.close(CLOSING_SECONDS)
            engine.close(CLOSING_SECONDS)


def _stay(page: Running, folder: DataFolder, opening: Opening) -> None:
    """Until the page is closed for good."""
    try:
        if opening.is_native:
            show_window(
                page.url, folder.path / "window", page.endpoint.quit_requested, page.endpoint.raise_requested
            )
        page.wait()
    except KeyboardInterrupt:
        typer.echo("Closing.")


@contextmanager
def _engine(locate: Locate, notes_dir: Path) -> Iterator[Engine]:
    """An engine that is not waited for at the end: it may be importing torch, which cannot be interrupted.

    What it loads is in files already, and what it writes is the stores' to keep."""
    engine = Engine(locate, notes_dir)
    try:
        yield engine
    finally:
        engine.close(CLOSING_SECONDS)


def _chosen(settings: Settings, model: str | None) -> Settings:
    if not model:
        return settings
    with impossible_values():
        return replace(settings, model=replace(settings.model, name=model))


@contextmanager
def open_chatbook(database: Database) -> Iterator[ChatStores]:
    """The stored chats, as an ended run left them, and an empty store for private ones.

    Deleted chats are forgotten at the end; those of a run that was killed, at the start."""
    if database.note:
        typer.echo(database.note)
    stored = Chats(database)
    with suppress(StoreError):  # a full disk keeps nobody from reading what is there
        stored.mark_interrupted()
        stored.purge()
    try:
        with closing(Database(MEMORY)) as memory:
            yield ChatStores(stored, Chats(memory))
    finally:
        with suppress(StoreError):  # a disk that fails now: the next start forgets them
            stored.purge()
