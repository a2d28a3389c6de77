"""The installed and the recommended models, and whether they fit in memory; cached, because the look-up is slow."""

import logging
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from app.errors import AppError, ModelError
from app.settings import ModelSettings
from app.ui.frame.services import Services
from app.values.messages import ModelChoice, ModelInfo
from app.values.model import (
    USUAL_CONTEXT,
    DiskUse,
    Fit,
    InstalledModel,
    Memory,
    Precision,
    Recommendation,
    Verdict,
    gigabytes,
)

log = logging.getLogger(__name__)

FLOATS: tuple[Precision, ...] = ("float32", "bfloat16", "float16")
AUTO_PRECISION: Precision = "bfloat16"
"""The precision that is assumed for "auto" while no model is loaded."""
MEMORY_PARTS = (("weights", "weights"), ("cache", "context"), ("rows", "computation"), ("runtime", "runtime"))
"""The parts of the memory that a model needs: the field of `MemoryNeed`, and its name on the page."""
COLOURS: dict[Verdict, str] = {"fits": "fits", "fits with int4": "tight", "too big": "big"}
"""The CSS class of each verdict, which is always shown in words, too."""


@dataclass(frozen=True, slots=True)
class InstalledFit:
    """An installed model, and whether it fits; `fit` is None if that is unknown."""

    model: InstalledModel
    fit: Fit | None


@dataclass(frozen=True, slots=True)
class Inventory:
    """All models as they were found at one time."""

    memory: Memory
    gpus: tuple[str, ...]
    disk: DiskUse
    recommended: tuple[Recommendation, ...]
    installed: tuple[InstalledFit, ...]
    library: ModelSettings
    is_logged_in: bool
    loaded_fit: Fit | None

    def find(self, path: str) -> InstalledModel | None:
        return next((one.model for one in self.installed if str(one.model.path) == path), None)


class InventoryCache:
    """The inventory that all pages share. It is looked up again on demand, after a download, and after a load."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._inventory: Inventory | None = None
        self._version: object = None
        self._lock = threading.Lock()

    @property
    def precision(self) -> Precision:
        """The precision that dtype "auto" means: that of a model loaded with "auto", else AUTO_PRECISION."""
        is_auto = self._services.settings.model.dtype == "auto"
        return precision_of(self._services.engine.status().model if is_auto else None)

    def judge(self, model: InstalledModel, choice: ModelChoice, memory: Memory) -> Fit:
        """Estimate whether a model fits in memory with these options. Raises ModelError for invalid files."""
        precision, context = precision_for(choice, self.precision), choice.context or USUAL_CONTEXT
        is_automatic = choice.dtype == choice.quantisation == "auto"
        judge = self._services.models.judge
        return judge(model, memory, precision, context, choice.draft_model, is_automatic)

    def find(self, path: str) -> InstalledModel:
        """Return the installed model at this path. Raises AppError if there is none."""
        inventory = self.get()
        model = inventory.find(path) if inventory else None
        if model is None:
            raise AppError("This model is no longer installed. Open Models again.")
        return model

    def refresh(self) -> None:
        """Look up all models again, whatever is cached."""
        with self._lock:
            self._renew()

    def get(self) -> Inventory | None:
        """Return the inventory; None until the first `refresh`. Looks up all models if it is outdated."""
        if self._inventory is not None and self._version != self._current_version():
            try:
                with self._lock:
                    if self._version != self._current_version():  # no other page has renewed it
                        self._renew()
            except (AppError, OSError):  # the old inventory stays until a later renewal succeeds
                log.warning("the list of models could not be renewed", exc_info=True)
        return self._inventory

    def _renew(self) -> None:
        self._version = self._current_version()
        self._inventory = self._find()

    def _current_version(self) -> object:
        """Return what the inventory depends on: the finished downloads, and the loaded model."""
        downloads = self._services.models.downloads.snapshot()
        return {one.name for one in downloads if one.state == "done"}, self._services.engine.status().model

    def _find(self) -> Inventory:
        models, status = self._services.models, self._services.engine.status()
        info, chosen = status.model, self._services.settings.model.device
        # The device is unknown until a model is loaded, unless the CPU was chosen.
        device = info.device if info and not info.server else "cpu" if chosen == "cpu" else ""
        free = models.memory(device)
        # Before another model is loaded, the memory of the loaded one is freed.
        memory = replace(free, free=min(free.total, free.free + status.peak))
        installed = self._recent_first(models.installed())
        loaded = next((one for one in installed if info and is_same_model(one, info)), None)
        return Inventory(
            memory,
            tuple(models.gpus()),
            models.disk(),
            tuple(models.recommended(free.usual, self.precision, USUAL_CONTEXT)),
            tuple(InstalledFit(model, self._fit(model, memory)) for model in installed),
            self._services.settings.library,
            models.hub.is_logged_in(),
            self._fit(loaded, memory) if loaded else None,
        )

    def _recent_first(self, installed: Sequence[InstalledModel]) -> tuple[InstalledModel, ...]:
        """Return these models and those that were loaded by their path, the last loaded models first."""
        known = {load_name(one): one for one in installed}
        recent: dict[str, InstalledModel] = {}
        for name in (one.name for one in self._services.settings.loaded):
            with suppress(ModelError):  # the file was deleted or is damaged
                if name in known:
                    recent[name] = known[name]
                elif Path(name).is_absolute():
                    recent[name] = self._services.models.open_path(name)
        return tuple({**recent, **known}.values())

    def _fit(self, model: InstalledModel, memory: Memory) -> Fit | None:
        if model.state != "ready":
            return None
        try:
            return self.judge(model, self._services.settings.choice_of(load_name(model)), memory)
        except ModelError:  # the model's row shows what is wrong
            return None


def precision_of(info: ModelInfo | None) -> Precision:
    """Return the precision of a loaded model's activations; AUTO_PRECISION if it is unknown."""
    return next((known for known in FLOATS if info and known == info.dtype), AUTO_PRECISION)


def precision_for(choice: ModelChoice, automatic: Precision) -> Precision:
    """Return the precision of weights loaded with these options; `automatic` is the precision for "auto"."""
    if choice.quantisation == "int8" or choice.quantisation == "int4":
        return choice.quantisation
    return choice.dtype if choice.dtype != "auto" else automatic


def is_same_model(model: InstalledModel, info: ModelInfo) -> bool:
    """Return whether this installed model is the loaded model, by name and revision."""
    return (model.name, model.revision, "") == (info.name, info.revision, info.server)


def load_name(model: InstalledModel) -> str:
    """Return the name that loads exactly this model: the hub id with a revision, "demo", or else the path."""
    if model.origin == "hub":
        return f"{model.name}@{model.revision}"
    return model.name if model.origin == "demo" else str(model.path)


def fit_values(fit: Fit) -> dict[str, object]:
    """Return the values of the memory bar, and the verdict in words."""
    total, free = fit.need.total, fit.memory.free
    words = f"needs {gigabytes(total)} in {fit.form}, of {fit.memory.words}{fit.memory.limit_words(total)}"
    if fit.verdict == "fits":
        words = f"needs {gigabytes(total)} of {fit.memory.words} · chats up to {fit.longest_context:,} tokens"
    elif fit.longest_context:
        words += f" · {fit.longest_context:,} tokens of context would fit"
    needs = [(part, name, getattr(fit.need, part)) for part, name in MEMORY_PARTS]
    scale = max(free, total, 1)
    return {
        "verdict": fit.verdict.capitalize(),
        "colour": COLOURS[fit.verdict],
        "words": f"{words} · {fit.note}" if fit.note else words,
        "parts": ", ".join(f"{name} {gigabytes(size)}" for _, name, size in needs),
        "widths": [(part, share(size, scale)) for part, _, size in needs],
        "limit": share(free, scale) if total > free else "",
    }


def share(part: int, whole: int) -> str:
    """Return a part of a whole as a width for CSS."""
    return f"{part / max(1, whole):.2%}"
