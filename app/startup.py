"""Builds the app (log, database, engine, models, documents, conversations, page), and closes its parts in order."""

import logging
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from logging.handlers import RotatingFileHandler
from pathlib import Path
from threading import Event, Thread
from urllib.parse import urlsplit

import typer
from starlette.types import ASGIApp

from app.api.access import ApiSwitch
from app.api.api_key import KeyFile
from app.chats.chats import Chats
from app.commands.services import make_api_services, make_engine
from app.conversation import ChatStores, ChatTools, Conversations
from app.conversation.engine_protocol import EngineEmbedder
from app.conversation.race.race import Race
from app.conversation.race.race_log import RaceLog
from app.conversation.remote_engine import EngineWithServers
from app.database.backup_rotation import DailyBackups
from app.database.data_folder import DataFolder
from app.database.database import MEMORY, Database, database_in
from app.database.restoring import apply_staged
from app.desktop.window import show_window
from app.documents.documents import Documents
from app.documents.file_import import PENDING_FOLDER
from app.engine import Engine
from app.engine.machine.device_options import ALONE, RankPlan
from app.errors import AppError, BadOption, SettingsNotSaved, StoreError, impossible_values
from app.remote import Servers
from app.settings import Settings, SettingsFile, ToolSettings
from app.system.machine import machine_name
from app.system.network_log import HUB_WHY, NetworkLog
from app.system.shutdown import SECONDS, end_within
from app.tools.mcp_servers import ToolServers
from app.ui import AppContext, Deletions, Running, Services, discard_all, serve
from app.values.messages import ModelFolder
from app.values.tools import ToolServer

CLOSING_SECONDS = 0.2
"""Maximum number of seconds that closing waits for a race, and then for the engine. A step of erasing, and the
pause after the step, also take about as long."""
ERASING_SECONDS = 10.0
"""Seconds between two checks of whether deleted things can be erased, while nothing is being erased."""
LONGEST_LOG, OLD_LOGS = 1_000_000, 2
"""Maximum number of bytes of the log file, and the number of older log files that are kept."""


@dataclass(frozen=True, slots=True)
class Opening:
    """How the app is opened: at which port, in the browser or in a native window, with or without a key and
    the API, and on which devices the model runs."""

    port: int
    in_browser: bool
    is_native: bool
    has_key: bool = True
    has_api: bool = False
    plan: RankPlan = ALONE


@dataclass(frozen=True, slots=True)
class ModelAsked:
    """The model of the command line, and its draft model. None stands for the model that was used last."""

    name: str | None = None
    draft_model: str | None = None


def run_app(folder: DataFolder, opening: Opening, model: ModelAsked, network_log: NetworkLog) -> None:
    """Run the app until the user closes it. Raises AppError."""
    file = SettingsFile(folder.path)
    settings = _load_settings(file, model)
    log = log_path(folder.path)
    write_log(log)
    discard_all(folder.path)
    with (
        closing(_open_database(folder.path)) as database,
        closing(DailyBackups(database)) as backups,
        open_chat_stores(database) as stores,
        _open_services(database, stores, file, settings, opening.plan, network_log) as (services, engine),
    ):
        api, hub_cache = _api(services, engine, folder.path), services.models.hub.root
        note = partial(getattr, database, "note")
        app_context = AppContext(folder.path, hub_cache, log, network_log, api, database, note)
        page = _open(services, app_context, opening, folder)
        backups.start()
        # The page opens first, because loading begins with importing torch, which takes seconds.
        services.engine.load(settings.model, lambda _: None)
        with erasing(services.deletions, stores.stored, services.documents):
            try:
                if opening.is_native:
                    endpoint, storage = page.endpoint, folder.path / "window"
                    show_window(page.url, storage, endpoint.quit_requested, endpoint.raise_requested)
                page.wait()
            except KeyboardInterrupt:
                typer.echo("Closing.")
            finally:
                end_within(SECONDS, log)
                _close(page, services, engine)


def _load_settings(file: SettingsFile, model: ModelAsked) -> Settings:
    """Return the saved settings with the command line's models. Saves `loaded` if it changes. Raises AppError."""
    saved = file.load()
    settings = asked_settings(saved, model)
    if settings.loaded != saved.loaded:
        with suppress(SettingsNotSaved):  # on a full disk the chats can still be read
            file.save(replace(saved, loaded=settings.loaded))
    return settings


@contextmanager
def _open_services(
    database: Database, stores: ChatStores, file: SettingsFile, settings: Settings, plan: RankPlan,
    network_log: NetworkLog,
) -> Iterator[tuple[Services, Engine]]:  # fmt: skip
    """Open models, engine, documents, tools and conversations, and close them at the end in reverse order."""
    # Imported here, because main.py must first set the environment variables that the hub's client reads on import.
    from app.models_registry.locate import folder_here
    from app.models_registry.model_library import ModelLibrary

    data_dir, services = file.path.parent, None
    models = ModelLibrary(data_dir, settings.library)
    servers = Servers(data_dir, lambda: models.hub.is_offline, network_log.explain)
    network_log.explain(urlsplit(models.hub.address).hostname or "", HUB_WHY)  # the hub may be a mirror

    def embedding_model() -> ModelFolder | None:
        return folder_here(settings.library.embedder, models.hub)  # it may be downloaded while the app runs

    def tool_settings() -> ToolSettings:
        return services.settings.tools if services else settings.tools

    with ExitStack() as parts:
        parts.enter_context(closing(models.downloads))
        engine = make_engine(data_dir, lambda: models.hub, plan, settings.local_model.device)
        parts.callback(engine.close, CLOSING_SECONDS)  # not longer, because its thread may be importing torch
        engines = EngineWithServers(engine, servers)
        documents = Documents(database, data_dir, EngineEmbedder(engine, embedding_model))
        parts.enter_context(closing(documents))
        parts.enter_context(attached_with_chats(documents, stores))
        tool_servers = ToolServers(lambda: explained_servers(tool_settings(), network_log), data_dir)
        parts.enter_context(closing(tool_servers))
        tools = ChatTools(tool_servers, documents, tool_settings, partial(explain_address, network_log))
        conversations = parts.enter_context(closing(Conversations(engines, stores, documents, tools)))
        documents.give_way(lambda: conversations.is_busy)
        race = Race(engine, lambda: conversations.is_busy, RaceLog(database), machine_name)
        services = Services(conversations, engines, models, race, documents, file, settings, servers)
        yield services, engine


def explained_servers(tools: ToolSettings, network_log: NetworkLog) -> Sequence[ToolServer]:
    """Return the tool servers, after adding to the network log why their hosts may be contacted."""
    for one in tools.servers:
        explain_address(network_log, one.address, f"the tool server {one.name}")
    return tools.servers


def explain_address(network_log: NetworkLog, address: str, why: str) -> None:
    """Add to the network log why an address's host may be contacted. An address without a host adds nothing."""
    with suppress(ValueError):  # an invalid address, perhaps written by a model, is refused when it is used
        if host := urlsplit(address).hostname:
            network_log.explain(host, why)


def _open(services: Services, app_context: AppContext, opening: Opening, folder: DataFolder) -> Running:
    settings, api = services.settings, app_context.api
    services.follow_model(settings.local_model.name)
    api.turn(opening.has_api or settings.has_api)
    in_browser = opening.in_browser and not opening.is_native
    page = serve(services, app_context, opening.port, in_browser, opening.is_native, opening.has_key)
    folder.announce(page.url)
    typer.echo(page.note or f"Foresight is at {page.url}")
    if api.is_on:
        typer.echo(f"The API is at {page.endpoint.origin}/v1, its key in {KeyFile(folder.path).path}")
    typer.echo("Close its window to quit." if opening.is_native else "Press Ctrl+C to quit.")
    return page


def _close(page: Running, services: Services, engine: Engine) -> None:
    """Stop the race and all replies, then close the page and the engine."""
    services.race.stop()
    services.conversations.stop_all()  # also replies of servers, which engine.stop does not reach
    engine.stop()
    page.close()
    services.race.close(CLOSING_SECONDS)
    engine.close(CLOSING_SECONDS)


def _open_database(data_dir: Path) -> Database:
    """Open the database. A backup that the user chose to restore replaces the database first."""
    restored = apply_staged(data_dir, (PENDING_FOLDER,))
    database = database_in(data_dir)
    database.note = " ".join(filter(None, (restored, database.note)))
    return database


def _api(services: Services, engine: Engine, data_dir: Path) -> ApiSwitch:
    """Make the switch of the API, which is served with the page and uses the page's model.

    The API is built when it is first turned on."""
    models, embedder = services.models, services.settings.library.embedder

    def build(key: KeyFile) -> ASGIApp:
        from app.api.application import build_api

        used = make_api_services(
            engine, lambda: services.settings.local_model, models.installed, embedder, models.hub
        )
        return build_api(used, key, origins=lambda: services.settings.api_origins)

    return ApiSwitch(build, KeyFile(data_dir))


@contextmanager
def attached_with_chats(documents: Documents, stores: ChatStores) -> Iterator[None]:
    """Delete attached documents that no chat searches, at the beginning and at the end of the block.

    At the beginning there are some if the app was killed. Also erases documents that were deleted before."""

    def delete() -> None:
        with suppress(AppError):  # if the disk is full, they stay until the next start
            documents.delete_attached(stores.stored.used_collections())

    delete()
    try:
        yield
    finally:
        delete()


def log_path(data_dir: Path) -> Path:
    return data_dir / "logs" / "foresight.log"


class LogFile(RotatingFileHandler):
    """A log file of limited size. Errors while writing are ignored."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802  (the name is logging's)
        """Drop the line instead of printing a traceback."""
        del record


def write_log(path: Path) -> logging.Handler | None:
    """Write warnings to this file from now on. Returns None if its folder cannot be made; the app starts anyway."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handler = LogFile(path, maxBytes=LONGEST_LOG, backupCount=OLD_LOGS, encoding="utf-8", delay=True)
    except OSError:
        return None
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.getLogger().addHandler(handler)
    return handler


def asked_settings(settings: Settings, asked: ModelAsked) -> Settings:
    """Return the settings with the models of the command line. Raises BadOption for an impossible choice."""
    if asked.draft_model and asked.name is None and settings.model.server:
        raise BadOption(
            f"{settings.model.name} runs on a server, so --draft-model would not be used. "
            "Name a model of this machine with --model, or leave out --draft-model."
        )
    from app.models_registry.locate import whole_path  # imported here, as in _open_services

    with impossible_values():
        choice = settings.model if asked.name is None else settings.choice_of(whole_path(asked.name))
        if asked.draft_model is not None:
            choice = replace(choice, draft_model=asked.draft_model)
        return settings.with_loaded(choice) if asked.name else replace(settings, model=choice)


@contextmanager
def open_chat_stores(database: Database) -> Iterator[ChatStores]:
    """Open the stored chats, and an empty store in memory for private chats. Prints the database's note.

    Marks replies that a killed app has interrupted. Spends a short time on erasing deleted chats, at the beginning
    and at the end."""
    if database.note:
        typer.echo(database.note)
    stored = Chats(database)
    with suppress(StoreError):  # if the disk is full, chats can still be read
        stored.mark_interrupted()
        stored.purge()
    try:
        with closing(Database(MEMORY)) as memory:
            yield ChatStores(stored, Chats(memory))
    finally:
        with suppress(StoreError):  # the next start erases the rest
            stored.purge()


@contextmanager
def erasing(deletions: Deletions, stored: Chats, documents: Documents) -> Iterator[None]:
    """Run a thread that erases deleted things soon after they can no longer be restored. Chats are erased in steps,
    and only while no reply is being written, because erasing from the search index (FTS5) may take long."""
    is_over = Event()

    def claim() -> None:
        stored.purge(0)
        documents.erase()

    def erase() -> None:
        has_more = True  # the last run of the app may have ended before everything was erased
        while not is_over.wait(CLOSING_SECONDS if has_more else ERASING_SECONDS):
            with suppress(StoreError):  # the next loop tries again
                has_more |= deletions.expire(claim)
                has_more = has_more and (stored.is_writing() or stored.erase(CLOSING_SECONDS))

    thread = Thread(target=erase, name="erasing", daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
