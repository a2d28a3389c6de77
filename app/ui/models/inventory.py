"""The installed and the recommended models, and whether they fit. Finding out takes a while, so it is cached."""

import logging
import threading
from dataclasses import dataclass, replace
from typing import Literal, cast, get_args

from app.errors import AppError, ModelError
from app.messages import DType, ModelChoice, ModelInfo
from app.model_messages import DiskUse, Fit, InstalledModel, Memory, Precision, Recommendation
from app.quantisation import Quantisation
from app.settings import ModelSettings
from app.ui.services import Services

log = logging.getLogger(__name__)

WeightPrecision = Literal["auto", "float32", "bfloat16", "float16", "int8", "int4"]
FLOATS: tuple[Precision, ...] = ("float32", "bfloat16", "float16")
AUTO_PRECISION: Precision = "bfloat16"
"""What "auto" is taken for while no model is loaded."""


@dataclass(frozen=True, slots=True)
class FitTarget:
    """What models are to fit with: this weight precision and this context length in tokens."""

    weights: WeightPrecision = "auto"
    context: int = 4096

    def __post_init__(self) -> None:
        if self.weights not in get_args(WeightPrecision):
            known = ", ".join(get_args(WeightPrecision))
            raise ValueError(f"the weight precision must be one of {known}, got {self.weights!r}")
        if not 1 <= self.context <= 10_000_000:
            raise ValueError(f"the context must be from 1 to 10,000,000 tokens, got {self.context!r}")


@dataclass(frozen=True, slots=True)
class InstalledFit:
    """An installed model, and whether it fits if its files can tell."""

    model: InstalledModel
    fit: Fit | None


@dataclass(frozen=True, slots=True)
class Inventory:
    """All models as they were found at one time."""

    target: FitTarget
    memory: Memory
    disk: DiskUse
    recommended: tuple[Recommendation, ...]
    installed: tuple[InstalledFit, ...]
    library: ModelSettings
    is_logged_in: bool
    loaded_fit: Fit | None

    def find(self, path: str) -> InstalledModel | None:
        """The installed model at this path."""
        return next((one.model for one in self.installed if str(one.model.path) == path), None)


class InventoryCache:
    """The inventory that all pages share. It is renewed on demand, after a download, and after a load."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._target = target_for(services.settings.model)
        self._inventory: Inventory | None = None
        self._version: object = None
        self._lock = threading.Lock()

    @property
    def target(self) -> FitTarget:
        """What models are to fit with."""
        return self._target

    @property
    def precision(self) -> Precision:
        """The target's weight precision, with "auto" resolved."""
        info = self._services.engine.status().model
        is_auto = self._services.settings.model.dtype == "auto"
        return resolved_precision(self._target.weights, info if is_auto else None)

    def set_target(self, target: FitTarget) -> None:
        """Check all models against this target."""
        self._target = target
        self.refresh()

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
        finished = frozenset(one.name for one in self._services.models.downloads() if one.state == "done")
        return finished, self._services.engine.status().model

    def _device(self) -> str:
        """The device that models run on; "" if that is not known before one is loaded."""
        chosen, info = self._services.settings.model.device, self._services.engine.status().model
        return info.device if info else chosen if chosen == "cpu" else ""

    def _find(self) -> Inventory:
        models, target, precision = self._services.models, self._target, self.precision
        status = self._services.engine.status()
        memory, info = _plus(models.memory(self._device()), status.peak), status.model
        installed = tuple(models.installed())
        loaded = next((one for one in installed if info and is_same_model(one, info)), None)
        return Inventory(
            target,
            memory,
            models.disk(),
            tuple(models.recommended(memory, precision, target.context)),
            tuple(InstalledFit(model, self._fit(model, memory, precision)) for model in installed),
            self._services.settings.library,
            models.is_logged_in(),
            self._fit(loaded, memory, precision_of(info)) if loaded and info else None,
        )

    def _fit(self, model: InstalledModel, memory: Memory, precision: Precision) -> Fit | None:
        if model.state != "ready":
            return None
        try:
            return self._services.models.judge(model, memory, precision, self._target.context)
        except ModelError:  # the model's row says what is wrong
            return None


def _plus(memory: Memory, freed: int) -> Memory:
    """The memory once the loaded model has been unloaded."""
    return replace(memory, free=min(memory.total, memory.free + freed))


def target_for(choice: ModelChoice) -> FitTarget:
    """The target that goes with the chosen model."""
    return FitTarget(choice.quantisation if choice.quantisation != "none" else choice.dtype)


def resolved_precision(weights: WeightPrecision, info: ModelInfo | None) -> Precision:
    """The precision of weights; "auto" becomes the loaded model's dtype."""
    if weights != "auto":
        return weights
    return _as_precision(info.dtype) if info else AUTO_PRECISION


def precision_of(info: ModelInfo) -> Precision:
    """The precision of a loaded model's weights."""
    return info.quantisation if info.quantisation != "none" else _as_precision(info.dtype)


def _as_precision(dtype: str) -> Precision:
    return next((known for known in FLOATS if known == dtype), AUTO_PRECISION)


def is_same_model(model: InstalledModel, info: ModelInfo) -> bool:
    """Whether this installed model is the loaded one."""
    return (model.name, model.revision) == (info.name, info.revision)


def choice_for(model: InstalledModel, weights: str, current: ModelChoice) -> ModelChoice:
    """The choice that loads an installed model with these weights on the current device. Raises ValueError."""
    name = load_name(model)
    if weights in get_args(Quantisation):
        return replace(current, name=name, dtype="auto", quantisation=cast(Quantisation, weights))
    return replace(current, name=name, dtype=cast(DType, weights), quantisation="none")


def load_name(model: InstalledModel) -> str:
    """The name that loads exactly this model: its name and revision in the cache, or its folder."""
    if model.origin == "hub":
        return f"{model.name}@{model.revision}"
    return model.name if model.origin == "demo" else str(model.path)
