"""Opens what a command, or the app itself, uses: devices, engine, documents, the hub and the API.

Only functions import `app.models_registry`, because importing the hub's client reads environment variables that
app/main.py must set first.
"""

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from app.commands.console import errors_as_sentences, print_text
from app.conversation.engine_protocol import EngineEmbedder
from app.database.data_folder import data_dir_or_default, optional_data_dir
from app.database.database import database_in
from app.documents.documents import Documents
from app.documents.embedding import NO_EMBEDDER, Embedder
from app.engine import Engine
from app.engine.machine.device_options import ALONE, RankPlan, TorchrunRank, plan_of, torchrun_rank
from app.engine.session.worker import quiet_imports
from app.errors import ModelError, impossible_values
from app.settings import ModelSettings, SettingsFile
from app.system.shutdown import SECONDS, ending_within
from app.values.chat_format import DEFAULT_THINKING, Thinking
from app.values.messages import Device, ModelChoice, ModelFolder, Progress
from app.values.model import InstalledModel

if TYPE_CHECKING:
    from app.api.services import ApiServices
    from app.models_registry.hub.hub import Hub

SECONDS_TO_REPORT = 2
"""Seconds for which rank 0 continues after torchrun's signal, so that it can report the end to its clients."""


def chosen_ranks(devices: str | None, device: Device) -> RankPlan:
    """Return the plan of the devices that this command uses. Raises BadOption.

    In a process that torchrun started with a rank above 0, serves rank 0 instead, then raises typer.Exit."""
    torchrun = torchrun_rank(os.environ)
    if torchrun and torchrun.rank:
        quiet_imports()
        from app.engine.parallel.rank_server import serve_torchrun  # this imports torch

        serve_torchrun(torchrun)
        raise typer.Exit
    if torchrun and hasattr(signal, "alarm"):
        # When one rank has ended, torchrun ends the others. Rank 0 reports this to its clients before it ends.
        signal.signal(signal.SIGTERM, lambda *_: signal.alarm(SECONDS_TO_REPORT))
    return devices_plan(devices, device, torchrun)


def devices_plan(
    devices: str | None, device: Device = "auto", torchrun: TorchrunRank | None = None
) -> RankPlan:
    """Return the plan that `--devices`, `--device` and torchrun give. Raises BadOption."""
    with impossible_values():
        return plan_of(devices, device, torchrun)


def hub_in(data_dir: Path | None) -> tuple["Hub", ModelSettings]:
    settings = SettingsFile(optional_data_dir(data_dir)).load().library
    return hub_of(settings), settings


def hub_of(settings: ModelSettings) -> "Hub":
    """Return the model hub, which sends no requests if the settings say offline."""
    from app.models_registry.hub.hub import Hub

    return Hub(is_offline=settings.is_offline)


def make_engine(data_dir: Path, hub: Callable[[], "Hub"], plan: RankPlan, device: Device) -> Engine:
    """Start an engine that keeps its measurements in this data folder. Texts are embedded on `device` until a model
    is loaded.

    `hub` is called whenever a model is located, because the user may have switched to offline meanwhile."""
    from app.models_registry.files.fit_estimate import fit_on_device
    from app.models_registry.locate import locate

    def located(name: str, progress: Progress) -> ModelFolder:
        return locate(name, progress, hub())

    return Engine(located, data_dir / "steps", plan=plan, device=device, estimate=fit_on_device)


@contextmanager
def engine_in(
    data_dir: Path, closing_seconds: float = SECONDS - 1, plan: RankPlan = ALONE, device: Device = "auto"
) -> Iterator[Engine]:
    """Open an engine for a command, and close it at the end. Waits up to `closing_seconds` for its thread.

    An AppError is printed before, because the process ends at once if the engine hangs."""
    engine = make_engine(data_dir, lambda: hub_of(SettingsFile(data_dir).load().library), plan, device)
    try:
        with errors_as_sentences():
            yield engine
    finally:
        with ending_within(SECONDS):  # after Ctrl+C the engine may still be loading, or hang
            engine.close(closing_seconds)


def make_api_services(
    engine: Engine,
    current: Callable[[], ModelChoice],
    installed: Callable[[], Sequence[InstalledModel]],
    embedder: str,
    hub: "Hub",
    thinking: Thinking = DEFAULT_THINKING,
) -> "ApiServices":
    from app.api.services import ApiServices, InstalledModels, served_model
    from app.models_registry.locate import folder_here, template_here

    return ApiServices(
        engine,
        lambda: served_model(current(), thinking),
        InstalledModels(installed),
        lambda: folder_here(embedder, hub),
        lambda choice: template_here(choice.name, hub),
    )


@contextmanager
def documents_in(data_dir: Path | None, embedder: Embedder = NO_EMBEDDER) -> Iterator[Documents]:
    """Open the documents of a data folder. The app may have them open at the same time."""
    folder = data_dir_or_default(data_dir)
    with closing(database_in(folder)) as database:
        if database.note:
            print_text(database.note, err=True)
        with closing(Documents(database, folder, embedder)) as documents:
            yield documents


@contextmanager
def embedded_documents(
    data_dir: Path | None, device: Device | None = None, is_search: bool = False
) -> Iterator[tuple[Documents, Engine]]:
    """Open documents together with an engine on this device, by default the app's own.

    For a search the embedding model is loaded. If it is missing or cannot be loaded, a note that only words
    were searched is printed after the block."""
    from app.models_registry.locate import folder_here

    folder = data_dir_or_default(data_dir)
    app = SettingsFile(folder).load()
    name, hub, note = app.library.embedder, hub_of(app.library), ""
    with engine_in(folder, device=device or app.local_model.device) as engine:
        embedder = EngineEmbedder(engine, lambda: folder_here(name, hub))
        with documents_in(folder, embedder) as documents:
            if is_search and not embedder.model:
                advice = f"download the embedding model: python run.py models download {name}"
                note = f"to search by meaning, too, {advice}"
            elif is_search:
                try:
                    embedder.embed(["ready"]).result()
                except ModelError as error:
                    note = str(error)
            yield documents, engine
            if note:
                print_text(f"[searched by words only: {note}]", err=True)
