"""What was found of models at the last look, which takes a while: it is kept, and looked at anew when asked."""

import logging
import threading
from dataclasses import dataclass, replace
from typing import Literal, cast, get_args

from app.errors import AppError, ModelError, impossible_values
from app.messages import DType, ModelChoice, ModelInfo
from app.model_messages import DiskUse, Fit, InstalledModel, Memory, Precision, Recommendation
from app.quantisation import Quantisation
from app.settings import ModelSettings
from app.ui.services import Services

log = logging.getLogger(__name__)

Kept = Literal["auto", "float32", "bfloat16", "float16", "int8", "int4"]
"""How the person wants a model's weights kept."""
FLOATS: tuple[Precision, ...] = ("float32", "bfloat16", "float16")
USUAL: Precision = "bfloat16"
"""What auto is taken for until a loaded model has told."""


@dataclass(frozen=True, slots=True)
class Wish:
    """What models are judged for: how weights are kept, and how many tokens a chat may get."""

    kept: Kept = "auto"
    context: int = 4096

    def __post_init__(self) -> None:
        if self.kept not in get_args(Kept):
            raise ValueError(f"weights must be kept as one of {', '.join(get_args(Kept))}, got {self.kept!r}")
        if not 1 <= self.context <= 10_000_000:
            raise ValueError(f"a chat's length must be from 1 to 10,000,000 tokens, got {self.context!r}")


@dataclass(frozen=True, slots=True)
class Judged:
    """An installed model, with whether it fits where its files can tell."""

    model: InstalledModel
    fit: Fit | None


@dataclass(frozen=True, slots=True)
class Stock:
    """All that was found."""

    wish: Wish
    memory: Memory
    disk: DiskUse
    recommended: tuple[Recommendation, ...]
    installed: tuple[Judged, ...]
    library: ModelSettings
    is_logged_in: bool
    loaded_fit: Fit | None


class Shelf:
    """The stock as all pages see it. `look` looks again only after a download ended or a model was loaded."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._wish = wish_of(services.settings.model)
        self._stock: Stock | None = None
        self._seen: object = None
        self._lock = threading.Lock()

    @property
    def wish(self) -> Wish:
        """What models are judged for."""
        return self._wish

    @property
    def precision(self) -> Precision:
        """The precision that the wish comes to."""
        info = self._services.engine.status().model
        return precision_of(self._wish.kept, info if self._services.settings.model.dtype == "auto" else None)

    def judge_for(self, wish: Wish) -> None:
        """Judge all models for this wish."""
        self._wish = wish
        self.refresh()

    def refresh(self) -> None:
        """Look at everything anew."""
        with self._lock:
            self._see()

    def look(self) -> Stock | None:
        """The stock, None until somebody asked for it."""
        if self._stock is not None and self._is_old():
            try:
                with self._lock:
                    if self._is_old():  # else another page has looked meanwhile
                        self._see()
            except (AppError, OSError):  # nobody asked: what was found before stays, until somebody does
                log.warning("the models could not be looked at", exc_info=True)
        return self._stock

    def find(self, path: str) -> InstalledModel | None:
        """The installed model at this path."""
        judged = self._stock.installed if self._stock else ()
        return next((one.model for one in judged if str(one.model.path) == path), None)

    def _see(self) -> None:
        self._seen = self._events()
        self._stock = self._find()

    def _is_old(self) -> bool:
        return self._seen != self._events()

    def _events(self) -> object:
        """What changes the stock without anybody asking: downloads that ended, and the loaded model."""
        ended = frozenset(d.name for d in self._services.models.downloads() if d.state == "done")
        return ended, self._services.engine.status().model

    def _device(self) -> str:
        """Where models run, as the worker tells it once one is loaded; "" where it is left to the machine."""
        chosen, info = self._services.settings.model.device, self._services.engine.status().model
        return info.device if info else chosen if chosen == "cpu" else ""

    def _find(self) -> Stock:
        models, wish, precision = self._services.models, self._wish, self.precision
        status = self._services.engine.status()
        memory, info = _without(models.memory(self._device()), status.peak), status.model
        found = tuple(models.installed())
        return Stock(
            wish,
            memory,
            models.disk(),
            tuple(models.recommended(memory, precision, wish.context)),
            tuple(Judged(model, self._fit(model, memory, precision)) for model in found),
            self._services.settings.library,
            models.is_logged_in(),
            next((self._fit(m, memory, held_as(info)) for m in found if info and is_same(m, info)), None),
        )

    def _fit(self, model: InstalledModel, memory: Memory, precision: Precision) -> Fit | None:
        if model.state != "ready":
            return None
        try:
            return self._services.models.judge(model, memory, precision, self._wish.context)
        except ModelError:  # its row says what is wrong with it
            return None


def _without(memory: Memory, taken: int) -> Memory:
    """The memory once the loaded model, which takes so much, has made room for another."""
    return replace(memory, free=min(memory.total, memory.free + taken))


def wish_of(choice: ModelChoice) -> Wish:
    """The wish that a chosen model speaks of."""
    return Wish(choice.quantisation if choice.quantisation != "none" else choice.dtype)


def precision_of(kept: Kept, info: ModelInfo | None) -> Precision:
    """What weights are kept as; what auto comes to on this machine, a loaded model tells."""
    if kept != "auto":
        return kept
    return _as_precision(info.dtype) if info else USUAL


def held_as(info: ModelInfo | None) -> Precision:
    """How a loaded model's weights are kept."""
    if info is None:
        return USUAL
    return info.quantisation if info.quantisation != "none" else _as_precision(info.dtype)


def _as_precision(dtype: str) -> Precision:
    return next((known for known in FLOATS if known == dtype), USUAL)


def is_same(model: InstalledModel, info: ModelInfo) -> bool:
    """Whether this installed model is the loaded one."""
    return (model.name, model.revision) == (info.name, info.revision)


def to_load(model: InstalledModel, kept: str, now: ModelChoice) -> ModelChoice:
    """The choice that loads an installed model so, on the device that is chosen now. Raises ValueError."""
    name = name_to_load(model)
    if kept in get_args(Quantisation):
        return replace(now, name=name, dtype="auto", quantisation=cast(Quantisation, kept))
    with impossible_values():
        return replace(now, name=name, dtype=cast(DType, kept), quantisation="none")


def name_to_load(model: InstalledModel) -> str:
    """What opens exactly this model: its name and revision in the cache, or its folder."""
    if model.origin == "hub":
        return f"{model.name}@{model.revision}"
    return model.name if model.origin == "demo" else str(model.path)
