"""The models on this machine, as clients of the API name them."""

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from time import monotonic

from app.api.services import ServedModel
from app.values.messages import ModelChoice
from app.values.model import InstalledModel

LISTED_SECONDS = 5.0
"""How long the list of installed models is kept: each is checked by its files."""


class InstalledModels:
    """All models that can be loaded."""

    def __init__(self, look: Callable[[], Sequence[InstalledModel]]) -> None:
        """`look` reads the disk; it may be called by any thread."""
        self._look = look
        self._lock = threading.Lock()
        self._listed: Sequence[ServedModel] = ()
        self._until = 0.0

    def __call__(self) -> Sequence[ServedModel]:
        """The models, as they were some seconds ago at most."""
        with self._lock:
            if monotonic() > self._until:
                self._listed = [_served(model) for model in self._look() if model.state == "ready"]
                self._until = monotonic() + LISTED_SECONDS
            return self._listed


def _served(model: InstalledModel) -> ServedModel:
    return ServedModel(model.name, ModelChoice(str(model.path) if model.origin == "folder" else model.name))


def served_model(choice: ModelChoice) -> ServedModel:
    """The model of a choice. A folder is called by its last part."""
    folder = Path(choice.name).expanduser()
    return ServedModel(folder.resolve().name if folder.is_dir() else choice.name, choice)
