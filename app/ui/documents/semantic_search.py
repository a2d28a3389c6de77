"""Semantic search needs an embedding model: whether it is installed, and how it is downloaded."""

from dataclasses import dataclass

from app.ui.frame.services import Services
from app.values.model import Download


@dataclass(frozen=True, slots=True)
class EmbeddingModelStatus:
    """The embedding model's name and state; `obstacle` says why it cannot be downloaded."""

    name: str
    is_installed: bool = False
    obstacle: str = ""
    download: Download | None = None

    @property
    def is_downloading(self) -> bool:
        """Whether the download runs or is queued."""
        return self.download is not None and self.download.state in ("queued", "running")


class SemanticSearch:
    """The embedding model of the settings."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def status(self) -> EmbeddingModelStatus:
        """The model's state. Makes no network request."""
        library, models = self._services.settings.library, self._services.models
        repo = models.hub_id(library.embedder)
        obstacle = "Foresight is offline" if library.is_offline else ""
        unfinished = (one for one in models.downloads.snapshot() if one.name == repo and one.state != "done")
        return EmbeddingModelStatus(
            library.embedder,
            models.is_here(library.embedder),
            obstacle if repo else "its folder is missing",
            next(unfinished, None),
        )

    def download(self) -> None:
        """Start or resume the download. Raises AppError."""
        status, models = self.status(), self._services.models
        if status.download and status.download.state in ("paused", "failed"):
            models.downloads.resume(status.download.name)
        elif not status.is_downloading:
            models.downloads.start(status.name)
