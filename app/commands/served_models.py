"""The models on this machine, as clients of the API name them."""

import threading
from collections.abc import Sequence
from pathlib import Path
from time import monotonic

from app.api.services import ServedModel
from app.commands.services import hub_of
from app.messages import ModelChoice, ModelFolder
from app.settings import SettingsFile

LISTED_SECONDS = 5.0
"""How long the list of installed models is kept: each is checked by its files."""


class LocalModels:
    """The models on this machine, as clients name them."""

    def __init__(self, folder: Path, choice: ModelChoice) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._listed: Sequence[ServedModel] = ()
        self._until = 0.0
        self.current = ServedModel(model_id(choice.name), choice)

    def installed(self) -> Sequence[ServedModel]:
        """All that can be loaded."""
        from app.models_registry import installed

        with self._lock:
            if monotonic() > self._until:
                library = SettingsFile(self._folder).load().library
                found = installed(hub_of(library), library.paths)
                self._listed = [
                    ServedModel(one.name, ModelChoice(str(one.path) if one.origin == "folder" else one.name))
                    for one in found
                    if one.state == "ready"
                ]
                self._until = monotonic() + LISTED_SECONDS
            return self._listed

    def embedder(self) -> ModelFolder | None:
        """The embedding model, if it is on this machine."""
        from app.models_registry import folder_here

        library = SettingsFile(self._folder).load().library
        return folder_here(library.embedder, hub_of(library))


def model_id(name: str) -> str:
    """A folder's last part, or the name as it is."""
    is_path = Path(name).expanduser().is_dir()
    return Path(name).expanduser().resolve().name if is_path else name
