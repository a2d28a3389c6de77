"""The library of models: the catalogue, the hub, downloads and installed models as one object.

Most methods ask the hub, the disk or the GPU's driver at every call, so callers keep the results that they show.
"""

import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from app.errors import ModelError, ModelNotFound
from app.models_registry import installed_models
from app.models_registry.catalogue import read_catalogue
from app.models_registry.downloads.download_queue import Downloads, SavedDownloads
from app.models_registry.downloads.resumable_fetch import disk_use
from app.models_registry.files.config import USUAL_TEMPERATURE, own_temperature, read_config
from app.models_registry.files.fit_estimate import activation_bytes, judge_folder, row_price
from app.models_registry.files.gguf_checks import gguf_files
from app.models_registry.files.weights import read_weights
from app.models_registry.hub.hub import Hub
from app.models_registry.hub.hub_id import parse_hub_id, require_hub_id
from app.models_registry.hub.search import inspect_model, search
from app.models_registry.locate import find_here, locate_path
from app.settings import ModelSettings
from app.system.machine import RAM, memories
from app.values.draft_heads import head_sizes
from app.values.model import (
    CONFIG,
    DiskUse,
    DraftModels,
    Fit,
    FolderContents,
    InstalledModel,
    Memory,
    Precision,
    Recommendation,
    RemoteModel,
    RowPrice,
    SearchHit,
)
from app.values.tokenizer_vocabulary import vocabulary_digest

KNOWN_PAIRS = (
    ("SmolLM2-1.7B", "HuggingFaceTB/SmolLM2-135M-Instruct"),
    ("SmolLM2-360M", "HuggingFaceTB/SmolLM2-135M-Instruct"),
    *((f"Qwen3-{size}", "Qwen/Qwen3-0.6B") for size in ("32B", "14B", "8B", "4B", "1.7B")),
    *((f"Qwen2.5-{size}", "Qwen/Qwen2.5-0.5B-Instruct") for size in ("32B", "14B", "7B", "3B", "1.5B")),
)
"""The beginning of a model's name, and the hub id of a model that drafts well for it."""
MOST_LISTED = 500
"""Maximum number of folders, and of models, that `list_folder` returns."""


class ModelLibrary:
    """Models on this machine and on the hub. Safe to use from any thread.

    `hub` has the hub's address and cache, and is online or offline as the user has set it."""

    def __init__(self, data_dir: Path, chosen: ModelSettings, hub: Hub | None = None) -> None:
        """List the unfinished downloads, without resuming them. The default hub is that of Hugging Face's tools."""
        self._chosen = chosen
        self.hub = replace(hub or Hub(), is_offline=chosen.is_offline)
        self.downloads = Downloads(self.hub, SavedDownloads(data_dir / "downloads"), chosen.downloads_at_once)
        self.downloads.restore()

    def use(self, chosen: ModelSettings) -> None:
        """Apply the user's settings, except `downloads_at_once`. If `is_offline` is set, pause all downloads."""
        self._chosen = chosen
        self.hub = replace(self.hub, is_offline=chosen.is_offline)
        self.downloads.use(self.hub)

    def memory(self, device: str = "") -> Memory:
        """Return the memory of this device or, if there is no such device, of the first GPU or the machine."""
        found = memories()
        return next((one for one in found if one.device == device), found[0])

    def gpus(self) -> list[str]:
        """Return the names, as in torch, of the CUDA GPUs that torch can use."""
        return [one.device for one in memories()[:-1]]

    def disk(self) -> DiskUse:
        """Return the free and total bytes of the disk to which models are downloaded."""
        return disk_use(self.hub.root)

    def recommended(self, memory: Memory, precision: Precision, context: int) -> list[Recommendation]:
        """Return the catalogue's models, smallest first, and judge whether they fit with automatic options."""
        return [
            Recommendation(one.entry, one.fit(memory, precision, context, is_automatic=True))
            for one in read_catalogue()
        ]

    def installed(self) -> list[InstalledModel]:
        return installed_models.installed(self.hub, self._chosen.paths)

    def open_path(self, path: str) -> InstalledModel:
        """Return the model in this folder or GGUF file. Raises ModelError if it cannot be loaded."""
        found = locate_path(path)
        return InstalledModel(found.name, found.path, "folder", installed_models.model_size(found.path))

    @staticmethod
    def list_folder(folder: Path) -> FolderContents:
        """Return the models and the other folders in a folder, without hidden folders.

        Raises ModelNotFound if the folder cannot be opened."""
        try:
            names = sorted((one.name for one in os.scandir(folder) if one.is_dir()), key=str.casefold)
            files = gguf_files(folder)
        except OSError as error:
            raise ModelNotFound(
                f"{folder} can't be opened ({error.strerror}). Choose another folder."
            ) from error
        folders = [folder / name for name in names if not name.startswith(".")]
        models = [one for one in folders if os.access(one, os.X_OK) and (one / CONFIG).is_file()]
        others = [one for one in folders if one not in models]
        parent = folder.parent if folder.parent != folder else None
        return FolderContents(folder, parent, (*models, *files)[:MOST_LISTED], tuple(others[:MOST_LISTED]))

    def is_here(self, name: str) -> bool:
        """Return whether a model is on this machine. Reads only the model's own folder."""
        return find_here(name, self.hub) is not None

    def judge(
        self,
        model: InstalledModel,
        memory: Memory,
        precision: Precision,
        context: int,
        draft_model: str = "",
        is_automatic: bool = False,
    ) -> Fit:
        """Estimate whether an installed model fits with its draft model. Raises ModelError for invalid files."""
        draft = find_here(draft_model, self.hub) if draft_model else None
        return judge_folder(model.path, model.name, memory, precision, context, draft, is_automatic)

    def draft_models(self, model: InstalledModel) -> DraftModels:
        """Return the models that can draft for an installed model.

        Reads the sizes of all installed models, and the vocabularies of the smaller models."""
        return draft_models_for(model, self.installed())

    def row_price(self, name: str, precision: Precision) -> RowPrice | None:
        """Return the memory that one token of a forward pass takes on a CPU; None if the model is not on this
        machine.

        Raises ModelError."""
        folder = find_here(name, self.hub)
        width = activation_bytes(precision, RAM)
        return row_price(read_config(folder, name), width) if folder else None

    def own_temperature(self, name: str) -> float:
        """Return the temperature that a model's files recommend; USUAL_TEMPERATURE if the model is not here."""
        folder = find_here(name, self.hub)
        return own_temperature(folder) if folder else USUAL_TEMPERATURE

    def search(self, words: str) -> list[SearchHit]:
        return search(self.hub, words)

    def hub_id(self, text: str) -> str:
        """Return the hub id for an id or the address of a hub page; "" for other strings."""
        return str(parse_hub_id(text, self.hub.endpoint) or "")

    def inspect_model(self, name: str, memory: Memory, precision: Precision, context: int) -> RemoteModel:
        """Ask the hub about a model, and judge whether it fits with automatic options. Raises ModelError."""
        hub_id = require_hub_id(name, self.hub.endpoint)
        return inspect_model(self.hub, hub_id, memory, precision, context, is_automatic=True)

    freed_by = staticmethod(installed_models.freed_by)
    delete = staticmethod(installed_models.delete)


def draft_models_for(model: InstalledModel, installed: Iterable[InstalledModel]) -> DraftModels:
    """Return the models that can draft for `model`: heads, then models with the same vocabulary, smallest first."""
    installed, digest = list(installed), vocabulary_digest(model.path)
    heads = [one for one in installed if one.state == "draft head" and _has_its_sizes(one, model)]
    ready = [one for one in installed if one.state == "ready" and digest]
    sizes = {one.path: _parameters(one) for one in (model, *ready)}
    smaller = [one for one in ready if 0 < sizes[one.path] < sizes[model.path]]
    smaller.sort(key=lambda one: sizes[one.path])
    same = [one for one in smaller if vocabulary_digest(one.path) == digest]
    return DraftModels((*heads, *same), known_draft_model(model.name))


def _has_its_sizes(head: InstalledModel, model: InstalledModel) -> bool:
    """Return whether a draft head was made for the hidden size and the vocabulary size of this model.

    The engine checks more when it loads both."""
    try:
        found = read_config(model.path, model.name)
        return head_sizes(head.path, head.name) == (found.hidden, found.vocabulary)
    except (ModelError, OSError):
        return False


def _parameters(model: InstalledModel) -> int:
    """Count a model's weights, because file sizes depend on the precision. Returns 0 for invalid files."""
    try:
        return read_weights(model.path, model.name).numbers
    except (ModelError, OSError):
        return 0


def known_draft_model(name: str) -> str:
    """Return the hub id of a model that drafts well for the model of this name; "" if none is known."""
    own = name.rpartition("/")[2].lower()
    return next((draft for begin, draft in KNOWN_PAIRS if own.startswith(begin.lower())), "")
