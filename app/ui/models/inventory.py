"""The installed and the recommended models, and whether they fit. Finding out takes a while, so it is cached."""

import logging
import threading
from dataclasses import dataclass, replace

from app.errors import AppError, ModelError
from app.settings import ModelSettings
from app.ui.frame.services import Services
from app.values.messages import ModelChoice, ModelInfo
from app.values.model import (
    DiskUse,
    Fit,
    InstalledModel,
    Memory,
    MemoryNeed,
    Precision,
    Recommendation,
    Verdict,
    gigabytes,
)
from app.values.quantisation import Quantisation

MEMORY_PARTS = (("weights", "weights"), ("cache", "context"), ("rows", "steps"), ("runtime", "runtime"))
"""What takes memory: the field of `MemoryNeed`, and its name on the page."""
COLOURS: dict[Verdict, str] = {"fits": "fits", "fits with int4": "tight", "too big": "big"}
"""A verdict's CSS class. The verdict is always there in words, too."""


def fit_values(fit: Fit) -> dict[str, object]:
    """The memory bar, and the verdict in words."""
    scale = max(fit.memory.free, fit.need.total, 1)
    return {
        "verdict": fit.verdict.capitalize(),
        "colour": COLOURS[fit.verdict],
        "words": _fit_words(fit),
        "parts": parts_words(fit.need),
        "widths": [(part, share(getattr(fit.need, part), scale)) for part, _ in MEMORY_PARTS],
        "limit": share(fit.memory.free, scale) if fit.need.total > fit.memory.free else "",
    }


def _fit_words(fit: Fit) -> str:
    needs, free = gigabytes(fit.need.total), gigabytes(fit.memory.free)
    if fit.verdict == "fits":
        return f"needs {needs} of {free} free · chats up to {fit.longest_context:,} tokens"
    shorter = f" · {fit.longest_context:,} tokens of context would fit" if fit.longest_context else ""
    return f"needs {needs} in {fit.precision}, {free} are free{shorter}"


def parts_words(need: MemoryNeed) -> str:
    """ "weights 1.2 GB, context 60 MB, …"."""
    return ", ".join(f"{name} {gigabytes(getattr(need, part))}" for part, name in MEMORY_PARTS)


def share(part: int, whole: int) -> str:
    """A part of a whole as a width for CSS."""
    return f"{part / max(1, whole):.2%}"


log = logging.getLogger(__name__)

FLOATS: tuple[Precision, ...] = ("float32", "bfloat16", "float16")
AUTO_PRECISION: Precision = "bfloat16"
"""What "auto" is taken for while no model is loaded."""
CONTEXT = 4096
"""Tokens of context that models are checked with, unless one is loaded with fewer or more."""


@dataclass(frozen=True, slots=True)
class InstalledFit:
    """An installed model, and whether it fits if its files can tell."""

    model: InstalledModel
    fit: Fit | None


@dataclass(frozen=True, slots=True)
class Inventory:
    """All models as they were found at one time. `fast` is the quantisation that is fastest on this machine."""

    memory: Memory
    gpus: tuple[str, ...]
    disk: DiskUse
    recommended: tuple[Recommendation, ...]
    installed: tuple[InstalledFit, ...]
    library: ModelSettings
    is_logged_in: bool
    loaded_fit: Fit | None
    fast: Quantisation = "none"

    def find(self, path: str) -> InstalledModel | None:
        """The installed model at this path."""
        return next((one.model for one in self.installed if str(one.model.path) == path), None)

    def fit_of(self, model: InstalledModel) -> Fit | None:
        """Whether an installed model fits, as it was judged."""
        return next((one.fit for one in self.installed if one.model == model), None)


class InventoryCache:
    """The inventory that all pages share. It is renewed on demand, after a download, and after a load."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._inventory: Inventory | None = None
        self._version: object = None
        self._lock = threading.Lock()

    @property
    def precision(self) -> Precision:
        """What "auto" is, as far as the loaded model tells."""
        is_auto = self._services.settings.model.dtype == "auto"
        return precision_of(self._services.engine.status().model if is_auto else None)

    def judge(self, model: InstalledModel, choice: ModelChoice, memory: Memory) -> Fit:
        """Whether a model fits, loaded by this choice. Raises ModelError when its files make no sense."""
        return self._services.models.judge(
            model,
            memory,
            precision_for(choice, self.precision),
            choice.context or CONTEXT,
            choice.draft_model,
        )

    def refresh(self) -> None:
        """Renew the inventory."""
        with self._lock:
            self._renew()

    def get(self) -> Inventory | None:
        """The inventory; None until the first refresh."""
        if self._inventory is not None and self._is_outdated():
            try:
                with self._lock:
                    if self._is_outdated():  # else another page has renewed it meanwhile
                        self._renew()
            except (AppError, OSError):  # nobody asked for it: the old inventory stays until somebody does
                log.warning("the list of models could not be renewed", exc_info=True)
        return self._inventory

    def _renew(self) -> None:
        self._version = self._current_version()
        self._inventory = self._find()

    def _is_outdated(self) -> bool:
        return self._version != self._current_version()

    def _current_version(self) -> object:
        """What changes the inventory by itself: finished downloads, and the loaded model."""
        finished = frozenset(
            one.name for one in self._services.models.downloads.snapshot() if one.state == "done"
        )
        return finished, self._services.engine.status().model

    def _device(self) -> str:
        """The device that models run on; "" if that is not known before one is loaded."""
        chosen, info = self._services.settings.model.device, self._services.engine.status().model
        is_here = info is not None and not info.server
        return info.device if info and is_here else chosen if chosen == "cpu" else ""

    def _find(self) -> Inventory:
        models, status = self._services.models, self._services.engine.status()
        memory, info = _plus(models.memory(self._device()), status.peak), status.model
        installed = tuple(models.installed())
        loaded = next((one for one in installed if info and is_same_model(one, info)), None)
        return Inventory(
            memory,
            tuple(models.gpus()),
            models.disk(),
            tuple(models.recommended(memory, self.precision, CONTEXT)),
            tuple(InstalledFit(model, self._fit(model, memory)) for model in installed),
            self._services.settings.library,
            models.hub.is_logged_in(),
            self._fit(loaded, memory) if loaded else None,
            models.fast_quantisation(),
        )

    def _fit(self, model: InstalledModel, memory: Memory) -> Fit | None:
        if model.state != "ready":
            return None
        try:
            return self.judge(model, self._services.settings.choice_of(load_name(model)), memory)
        except ModelError:  # the model's row says what is wrong
            return None


def _plus(memory: Memory, freed: int) -> Memory:
    """The memory once the loaded model has been unloaded."""
    return replace(memory, free=min(memory.total, memory.free + freed))


def precision_of(info: ModelInfo | None) -> Precision:
    """The precision of a loaded model's activations."""
    return _as_precision(info.dtype) if info else AUTO_PRECISION


def precision_for(choice: ModelChoice, automatic: Precision) -> Precision:
    """The precision of weights that are loaded by this choice."""
    if choice.quantisation != "none":
        return choice.quantisation
    return choice.dtype if choice.dtype != "auto" else automatic


def _as_precision(dtype: str) -> Precision:
    return next((known for known in FLOATS if known == dtype), AUTO_PRECISION)


def is_same_model(model: InstalledModel, info: ModelInfo) -> bool:
    """Whether this installed model is the loaded one."""
    return (model.name, model.revision, "") == (info.name, info.revision, info.server)


def load_name(model: InstalledModel) -> str:
    """The name that loads exactly this model: its name and revision in the cache, or its folder."""
    if model.origin == "hub":
        return f"{model.name}@{model.revision}"
    return model.name if model.origin == "demo" else str(model.path)
