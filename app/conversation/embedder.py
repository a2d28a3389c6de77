"""Lets documents have their texts embedded by the engine, with the model that is on this machine."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Protocol

from app.documents.embedding import NO_EMBEDDER
from app.documents.search.vector_index import Vectors
from app.messages import ModelFolder

FindEmbedder = Callable[[], ModelFolder | None]
"""The folder of the embedding model; None while it is not on this machine. Never downloads."""


class EmbedsTexts(Protocol):
    """The part of the engine that is needed here."""

    def embed(self, model: ModelFolder, texts: Sequence[str]) -> Future[Vectors]:
        """Vectors of texts, once there is time."""


class EngineEmbedder:
    """Embeds behind replies; is no model at all until the folder of one is there."""

    def __init__(self, engine: EmbedsTexts, find: FindEmbedder) -> None:
        self._engine = engine
        self._find = find

    @property
    def model(self) -> str:
        """The model's name and revision; "" while there is none."""
        folder = self._find()
        return f"{folder.name}@{folder.revision}" if folder else ""

    def embed(self, texts: Sequence[str]) -> Future[Vectors]:
        """Vectors of these texts, or none without a model."""
        folder = self._find()
        return self._engine.embed(folder, texts) if folder else NO_EMBEDDER.embed(texts)
