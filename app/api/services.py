"""The parts of the app that the API uses: the engine, the models on this machine, and a lock by which requests take
turns."""

import asyncio
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import monotonic
from typing import Annotated

from fastapi import Depends
from starlette.requests import Request as HttpRequest

from app.api.errors import ApiError
from app.engine import Engine
from app.values.chat_format import DEFAULT_THINKING, UNKNOWN_FORMAT, ChatFormat, Thinking
from app.values.messages import ModelChoice, ModelFolder
from app.values.model import InstalledModel

LISTED_SECONDS = 5.0
"""Seconds for which the list of installed models is reused, because reading it opens files of each model."""


@dataclass(frozen=True, slots=True)
class ServedModel:
    """A model on this machine: the id that clients use, and the engine's choice of model for it.

    `thinking` applies to requests that do not choose a level of thinking. `is_gguf` is whether it is known to be a
    GGUF file."""

    id: str
    choice: ModelChoice
    thinking: Thinking = DEFAULT_THINKING
    is_gguf: bool = False


class InstalledModels:
    """The models that are ready to be loaded, read from the disk at most once every LISTED_SECONDS."""

    def __init__(self, look: Callable[[], Sequence[InstalledModel]]) -> None:
        """Take `look`, which reads the list of models from the disk. Any thread may call the instance."""
        self._look = look
        self._lock = threading.Lock()
        self._listed: Sequence[ServedModel] = ()
        self._until = 0.0

    def __call__(self) -> Sequence[ServedModel]:
        with self._lock:
            if monotonic() > self._until:
                self._listed = [_served(one) for one in self._look() if one.state == "ready"]
                self._until = monotonic() + LISTED_SECONDS
            return self._listed


def _served(model: InstalledModel) -> ServedModel:
    name = str(model.path) if model.origin == "folder" else model.name
    return ServedModel(model.name, ModelChoice(name), is_gguf=model.path.is_file())


def served_model(choice: ModelChoice, thinking: Thinking = DEFAULT_THINKING) -> ServedModel:
    """Return the choice with the id that clients use: for a folder, the last part of its path."""
    folder = Path(choice.name).expanduser()
    name = folder.resolve().name if folder.is_dir() else choice.name
    return ServedModel(name, choice, thinking, is_gguf=name.lower().endswith(".gguf"))


@dataclass(frozen=True, slots=True)
class ApiServices:
    """The parts of the app that the routes use.

    `current` returns the model of requests that name none; `template` reads a chat template. Requests take turns:
    only one request of the API is in the engine's queue at a time, so that the page waits for at most one of them.
    The other requests wait in the order in which they came."""

    engine: Engine
    current: Callable[[], ServedModel]
    installed: Callable[[], Sequence[ServedModel]]
    embedder: Callable[[], ModelFolder | None]
    template: Callable[[ModelChoice], str] = lambda _choice: ""
    turns: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def chat_format(self, model: ServedModel) -> ChatFormat:
        """Return what is known about the model's chat template. Reads and tries the template on a thread."""
        template = await asyncio.to_thread(self.template, model.choice)
        return await asyncio.to_thread(self.engine.chat_format, template) if template else UNKNOWN_FORMAT

    def models(self) -> list[ServedModel]:
        """List the current model, then the others on this machine."""
        current = self.current()
        return [current, *(one for one in self.installed() if one.id != current.id)]

    async def chosen(self, name: str | None) -> ServedModel:
        """Call `find` on a thread, because it may read the disk. Raises ApiError."""
        return await asyncio.to_thread(self.find, name or "")

    def find(self, name: str) -> ServedModel:
        """Return the model of this id or name, on the current model's device; "" is the current model.

        Raises ApiError for an unknown model."""
        current = self.current()
        if name in ("", current.id, current.choice.name):
            return current
        for model in self.installed():
            if name in (model.id, model.choice.name):
                return replace(model, choice=replace(model.choice, device=current.choice.device))
        raise ApiError(
            f"There is no model {name!r} on this machine: GET /v1/models lists those that are here.",
            "model", 404, "model_not_found",
        )  # fmt: skip


async def _services(http: HttpRequest) -> ApiServices:
    found: ApiServices = http.app.state.services
    return found


Services = Annotated[ApiServices, Depends(_services)]
"""The parameter by which a route gets its ApiServices."""
