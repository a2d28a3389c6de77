"""The library of models as the window uses it: one object over catalogue, hub, downloads and what is installed.

It asks the hub, the disk or the driver's tool at every call, so whoever shows its answers keeps them.
"""

from dataclasses import replace
from pathlib import Path

from app import settings
from app.models_registry.catalogue import CatalogueModel, read_catalogue
from app.models_registry.downloads.downloads import Downloads, SavedDownloads
from app.models_registry.downloads.fetcher import disk_use
from app.models_registry.draft_models import draft_models_for
from app.models_registry.fast_format import fast_quantisation
from app.models_registry.files.config import read_config
from app.models_registry.files.fit_estimate import activation_bytes, judge_folder, row_price
from app.models_registry.files.generation import USUAL, own_temperature
from app.models_registry.hub import hub
from app.models_registry.hub.hub import Hub
from app.models_registry.hub.hub_id import HubId, parse_hub_id, require_hub_id
from app.models_registry.hub.search import inspect_model, search
from app.models_registry.installed_models import delete, freed_by, installed, model_size
from app.models_registry.locate import find_here, locate_path
from app.system.machine import RAM, gpu_memories, memories
from app.values.model import (
    DiskUse,
    Download,
    DraftModels,
    Fit,
    InstalledModel,
    Memory,
    Precision,
    Recommendation,
    RemoteModel,
    RowPrice,
    SearchHit,
)
from app.values.quantisation import Quantisation

SEARCHED = 20


class ModelLibrary:
    """Models on this machine and on the hub. Safe to use from any thread; only `downloads` answers at once."""

    def __init__(self, data_dir: Path, chosen: settings.ModelSettings, hub: Hub | None = None) -> None:
        """`hub` is where models come from and where they are kept; without it, what the hub's own tools use."""
        self._chosen = chosen
        self._hub = replace(hub or Hub(), is_offline=chosen.is_offline)
        files = SavedDownloads(data_dir / "downloads")
        self._downloads = Downloads(self._hub, files, chosen.downloads_at_once)
        self._downloads.restore()

    @property
    def hub(self) -> Hub:
        """The hub as the person has it now: on, or off."""
        return self._hub

    def use(self, chosen: settings.ModelSettings) -> None:
        """Follow the person's settings; off the hub all traffic ends."""
        self._chosen = chosen
        self._hub = replace(self._hub, is_offline=chosen.is_offline)
        self._downloads.use(self._hub)

    def memory(self, device: str = "") -> Memory:
        """What this device has free now; "" is the first GPU, or the machine itself."""
        found = memories()
        return next((one for one in found if one.device == device), found[0])

    def gpus(self) -> list[str]:
        """The graphics cards that the driver tells of, as torch calls them."""
        return [one.device for one in gpu_memories()]

    def fast_quantisation(self) -> Quantisation:
        """The quantisation that makes steps fastest on this machine; "none" for dense weights."""
        return fast_quantisation(self.gpus())

    def disk(self) -> DiskUse:
        """The disk that downloads go to."""
        return disk_use(self._hub.root)

    def recommended(self, memory: Memory, precision: Precision, context: int) -> list[Recommendation]:
        """The catalogue, small ones first, each with whether it fits."""
        return [_judged(one, memory, precision, context) for one in read_catalogue()]

    def installed(self) -> list[InstalledModel]:
        """All models on this machine."""
        return installed(self._hub, self._chosen.paths)

    def open_path(self, path: str) -> InstalledModel:
        """The model in this folder or GGUF file. Raises ModelError when there is none."""
        found = locate_path(path)
        return InstalledModel(found.name, found.path, "folder", model_size(found.path))

    def is_here(self, name: str) -> bool:
        """Whether a model is on this machine, by a look at one folder."""
        return find_here(name, self._hub) is not None

    def judge(
        self, model: InstalledModel, memory: Memory, precision: Precision, context: int, draft_model: str = ""
    ) -> Fit:
        """Whether an installed model fits with its draft model. Raises ModelError when files make no sense."""
        draft = find_here(draft_model, self._hub) if draft_model else None
        return judge_folder(model.path, model.name, memory, precision, context, draft)

    def draft_models(self, model: InstalledModel) -> DraftModels:
        """Which models can draft for an installed one. Reads vocabularies."""
        return draft_models_for(model, self.installed())

    def row_price(self, name: str, precision: Precision) -> RowPrice | None:
        """What a row of a step takes with this model; None where it is not on this machine. Raises ModelError."""
        folder = find_here(name, self._hub)
        width = activation_bytes(precision, RAM)
        return row_price(read_config(folder, name), width) if folder else None

    def own_temperature(self, name: str) -> float:
        """The temperature that a model asks for, the usual one where it is not on this machine."""
        folder = find_here(name, self._hub)
        return own_temperature(folder) if folder else USUAL

    def search(self, words: str) -> list[SearchHit]:
        """Models on the hub with these words, the most downloaded first. Raises ModelError."""
        return search(self._hub, words, SEARCHED)

    def hub_id(self, text: str) -> str:
        """The hub id that a text is, or the one in a page's address; "" when it is neither."""
        return str(parse_hub_id(text, self._hub.endpoint) or "")

    def inspect_model(self, name: str, memory: Memory, precision: Precision, context: int) -> RemoteModel:
        """A model on the hub before it is downloaded. Raises ModelError."""
        return inspect_model(self._hub, self._wanted(name), memory, precision, context)

    def page(self, name: str) -> str:
        """The address of a model's page on the hub."""
        return self._hub.page(self._wanted(name).repo)

    def downloads(self) -> tuple[Download, ...]:
        """How all downloads stand."""
        return self._downloads.snapshot()

    def start(self, name: str) -> None:
        """Download this model. Raises AppError when that cannot be."""
        self._downloads.start(self._wanted(name))

    def resume(self, name: str) -> None:
        """Go on with a download. Raises ModelError when the hub is off."""
        self._downloads.resume(name)

    def pause(self, name: str) -> None:
        """Stop a download's traffic, and keep what has come."""
        self._downloads.pause(name)

    def cancel(self, name: str) -> None:
        """Stop a download's traffic, and remove what it brought."""
        self._downloads.cancel(name)

    def dismiss(self, name: str) -> None:
        """Take a finished download off the list."""
        self._downloads.dismiss(name)

    def freed_by(self, model: InstalledModel) -> int:
        """The bytes that deleting a model would free."""
        return freed_by(model, self._hub)

    def delete(self, model: InstalledModel) -> int:
        """Delete a model of the hub's cache; the bytes that this freed. Raises ModelError where it cannot."""
        return delete(model, self._hub)

    def is_logged_in(self) -> bool:
        """Whether a token of the hub is kept on this machine."""
        return hub.is_logged_in()

    def log_in(self, token: str) -> str:
        """Check a token with the hub and keep it; whose it is. Raises ModelError."""
        return hub.log_in(self._hub, token)

    def log_out(self) -> None:
        """Forget the token."""
        hub.log_out()

    def close(self) -> None:
        """End all traffic."""
        self._downloads.close()

    def _wanted(self, name: str) -> HubId:
        return require_hub_id(name, self._hub.endpoint)


def _judged(one: CatalogueModel, memory: Memory, precision: Precision, context: int) -> Recommendation:
    return Recommendation(one.entry, one.fit(memory, precision, context))
