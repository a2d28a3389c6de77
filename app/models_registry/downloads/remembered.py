"""What is remembered of a download that is not done: one small file each in the data folder.

How far it has come is not in there. That is told by its partial files, which cannot be wrong.
"""

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from app.errors import SettingsNotSaved
from app.models_registry.hub.ids import HubId
from app.models_registry.hub.plan import Plan, plan_from_json


@dataclass(frozen=True, slots=True)
class DownloadFiles:
    """The data folder's place for them."""

    folder: Path

    def save(self, wanted: HubId, plan: Plan | None) -> None:
        """Remember this download. Raises SettingsNotSaved when the data folder cannot be written."""
        path = self._path(wanted)
        draft = path.with_suffix(".new")
        values = {"repo": wanted.repo, "revision": wanted.revision, "plan": plan.to_json() if plan else None}
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            draft.write_text(json.dumps(values), encoding="utf-8")
            draft.replace(path)
        except OSError as error:
            raise SettingsNotSaved(
                f"{self.folder} cannot be written ({error.strerror}), so a download of {wanted} would be forgotten "
                "when the app ends: free some space there, or choose another folder with --data-dir."
            ) from error

    def forget(self, wanted: HubId) -> None:
        """There is nothing left to remember."""
        with suppress(FileNotFoundError):
            self._path(wanted).unlink()

    def load(self) -> Iterator[tuple[HubId, Plan | None]]:
        """Those that were not done when the app ended; a file that makes no sense is left alone."""
        for path in sorted(self.folder.glob("*.json")):
            with suppress(OSError, ValueError, TypeError, KeyError, AttributeError):
                saved = json.loads(path.read_text(encoding="utf-8"))
                plan = plan_from_json(saved["plan"]) if saved["plan"] else None
                yield HubId(saved["repo"], saved["revision"]), plan

    def _path(self, wanted: HubId) -> Path:
        return self.folder / (quote(str(wanted), safe="") + ".json")
