"""Lets documents embed their texts with the engine, by the embedding model that is on this machine."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Protocol

from app.documents.embedding import Vectors
from app.errors import ModelNotFound
from app.values.messages import ModelFolder

FindEmbedder = Callable[[], ModelFolder | None]
"""The folder of the embedding model; None while it is not on this machine. Never downloads."""


class EmbedsTexts(Protocol):
    """The engine's embedding queue; the tests have one that answers at once."""

    def embed(self, model: ModelFolder, texts: Sequence[str]) -> Future[Vectors]:
        """Queues the embedding of these texts."""


class EngineEmbedder:
    """Embeds texts when no reply is being written. Has no model until its folder is there."""

    def __init__(self, engine: EmbedsTexts, find: FindEmbedder) -> None:
        self._engine = engine
        self._find = find

    @property
    def model(self) -> str:
        """The model's name and revision; "" without a model."""
        folder = self._find()
        return f"{folder.name}@{folder.revision}" if folder else ""

    def embed(self, texts: Sequence[str]) -> Future[Vectors]:
        """Vectors of these texts; `result()` raises ModelNotFound when the model is not, or no longer, there."""
        folder = self._find()
        if folder:
            return self._engine.embed(folder, texts)
        failed: Future[Vectors] = Future()
        failed.set_exception(ModelNotFound("The embedding model is not on this machine. Download it first."))
        return failed
