"""The engine of a command, and documents that it can find by meaning, too.

The registry is imported where it is used: the hub's client reads its environment while it is imported (app.main).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from app.commands.documents import documents_in
from app.commands.printing import say
from app.conversation.embedder import EngineEmbedder
from app.documents import Documents
from app.engine import Engine
from app.errors import ModelError
from app.messages import ModelFolder, Progress
from app.settings import ModelSettings, SettingsFile, data_dir_or_default
from app.shutdown import SECONDS, ending_within


@contextmanager
def engine_in(data_dir: Path) -> Iterator[Engine]:
    """An engine that remembers its measurements in this data folder."""
    from app.commands.library import hub_of
    from app.models_registry import locate

    def located(name: str, progress: Progress) -> ModelFolder:
        return locate(name, progress, hub_of(SettingsFile(data_dir).load().library))

    engine = Engine(located, data_dir / "steps")
    try:
        yield engine
    finally:
        with ending_within(SECONDS):  # Ctrl+C while it loads, or hangs
            engine.close()


@dataclass(frozen=True, slots=True)
class Opened:
    """Documents whose passages get vectors, if the model that is wanted for that is on this machine."""

    documents: Documents
    engine: Engine
    embedder: EngineEmbedder
    wanted: str


@contextmanager
def embedded_documents(data_dir: Path | None) -> Iterator[Opened]:
    """The documents of a data folder, and an engine for them."""
    folder = data_dir_or_default(data_dir)
    chosen = SettingsFile(folder).load().library
    with engine_in(folder) as engine:
        embedder = _embedder(engine, chosen)
        with documents_in(folder, embedder) as documents:
            yield Opened(documents, engine, embedder, chosen.embedder)


@contextmanager
def asked_documents(data_dir: Path | None) -> Iterator[tuple[Documents, Engine]]:
    """Documents to be asked, and the engine that answers; says at the end where words searched alone."""
    with embedded_documents(data_dir) as opened:
        note = _words_alone(opened)
        yield opened.documents, opened.engine
        if note:
            say(f"[found by words alone: {note}]", err=True)


def _embedder(engine: Engine, chosen: ModelSettings) -> EngineEmbedder:
    from app.commands.library import hub_of
    from app.models_registry import folder_here

    hub = hub_of(chosen)
    return EngineEmbedder(engine, lambda: folder_here(chosen.embedder, hub))


def _words_alone(opened: Opened) -> str:
    """Why meaning is not asked; "" where it is. Loads the model, since a search waits for no more than a moment."""
    if not opened.embedder.model:
        return f"to find by meaning, too, get the model: python run.py models download {opened.wanted}"
    try:
        opened.embedder.embed(["ready"]).result()
    except ModelError as error:
        return str(error)
    return ""
