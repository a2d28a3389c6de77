"""What a command opens: the engine, the documents with their embedding model, and the model hub.

The registry is imported inside functions: the hub's client reads its environment when it is imported (app/main.py).
"""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from app.commands.console import print_text
from app.conversation.engine_protocol import EngineEmbedder
from app.database import database_in
from app.database.data_folder import data_dir_or_default, optional_data_dir
from app.documents import Documents
from app.documents.embedding import NO_EMBEDDER, Embedder
from app.engine import Engine
from app.engine.machine.device_plan import ALONE, RankPlan
from app.errors import ModelError
from app.settings import ModelSettings, SettingsFile
from app.system.shutdown import SECONDS, ending_within
from app.values.messages import Device, ModelFolder, Progress

if TYPE_CHECKING:
    from app.models_registry import Hub


def model_settings(data_dir: Path | None) -> ModelSettings:
    """The person's settings for models."""
    return SettingsFile(optional_data_dir(data_dir)).load().library


def hub_of(settings: ModelSettings) -> "Hub":
    """The model hub; it sends no requests when the settings say offline."""
    from app.models_registry import Hub

    return Hub(is_offline=settings.is_offline)


@contextmanager
def engine_in(
    data_dir: Path, closing_seconds: float = 30.0, plan: RankPlan = ALONE, device: Device = "auto"
) -> Iterator[Engine]:
    """An engine that keeps its measurements in this data folder. At the end it has so long for what it is at.

    Texts are embedded on `device` until a model is loaded."""
    from app.models_registry import fit_on_device, locate

    def located(name: str, progress: Progress) -> ModelFolder:
        return locate(name, progress, hub_of(SettingsFile(data_dir).load().library))

    engine = Engine(located, data_dir / "steps", plan=plan, device=device, estimate=fit_on_device)
    try:
        yield engine
    finally:
        with ending_within(SECONDS):  # after Ctrl+C the engine may still be loading, or hang
            engine.close(closing_seconds)


@contextmanager
def documents_in(data_dir: Path | None, embedder: Embedder = NO_EMBEDDER) -> Iterator[Documents]:
    """The documents of a data folder. The app may have them open at the same time."""
    folder = data_dir_or_default(data_dir)
    with closing(database_in(folder)) as database:
        if database.note:
            print_text(database.note, err=True)
        with closing(Documents(database, folder, embedder)) as documents:
            yield documents


@dataclass(frozen=True, slots=True)
class EmbeddedDocuments:
    """Documents with an engine that embeds them by the model `embedding_model`, if that is on this machine."""

    documents: Documents
    engine: Engine
    embedder: EngineEmbedder
    embedding_model: str


@contextmanager
def embedded_documents(data_dir: Path | None, device: Device | None = None) -> Iterator[EmbeddedDocuments]:
    """The documents of a data folder, with an engine; None: on the device that the app uses."""
    from app.models_registry import folder_here

    folder = data_dir_or_default(data_dir)
    app = SettingsFile(folder).load()
    settings, hub = app.library, hub_of(app.library)
    with engine_in(folder, device=device or app.local_model.device) as engine:
        embedder = EngineEmbedder(engine, lambda: folder_here(settings.embedder, hub))
        with documents_in(folder, embedder) as documents:
            yield EmbeddedDocuments(documents, engine, embedder, settings.embedder)


@contextmanager
def searchable_documents(
    data_dir: Path | None, device: Device | None = None
) -> Iterator[tuple[Documents, Engine]]:
    """Documents that are searched, and their engine. Notes at the end when they were searched by words alone."""
    with embedded_documents(data_dir, device) as opened:
        note = _no_embedding_reason(opened)
        yield opened.documents, opened.engine
        if note:
            print_text(f"[searched by words only: {note}]", err=True)


def _no_embedding_reason(opened: EmbeddedDocuments) -> str:
    """Why documents are not searched by meaning, or "". Loads the model: a search does not wait for that."""
    if not opened.embedder.model:
        return (
            "to search by meaning, too, download the embedding model: "
            f"python run.py models download {opened.embedding_model}"
        )
    try:
        opened.embedder.embed(["ready"]).result()
    except ModelError as error:
        return str(error)
    return ""
