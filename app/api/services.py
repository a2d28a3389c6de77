"""What the API needs of the app: the engine, the models that may be asked, and whose turn it is."""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, Self

from app.api.errors import ApiError
from app.api.tool_syntax import ToolTemplate, tool_template
from app.values.logits import Grammar
from app.values.messages import EngineStatus, EventSink, ModelChoice, ModelFolder, Request


class TokenisedRequest(Protocol):
    """A request whose texts are tokens, unless its model is not loaded."""

    @property
    def request(self) -> Request:
        """What is asked."""

    def repeated(self, request: Request) -> Self:
        """Another request with the same texts."""


class ApiEngine(Protocol):
    """The engine, or a fake in tests."""

    def check_grammar(self, grammar: Grammar) -> None:
        """Raise GrammarRefused for a grammar that replies cannot be held to; may take a few seconds."""

    def tokenise(self, request: Request) -> Future[Any]:
        """Have a request's tokens made, beside whatever the engine does. Raises BadOption, PromptTooLong."""

    def submit(self, request: Any, reply: EventSink) -> None:
        """Queue a request that `tokenise` has returned."""

    def embed(
        self, model: ModelFolder, texts: Sequence[str | tuple[int, ...]], on_tokens: Callable[[int], None]
    ) -> Future[Any]:
        """Queue the embedding of texts."""

    def status(self) -> EngineStatus:
        """What the engine does now."""


@dataclass(frozen=True, slots=True)
class ServedModel:
    """A model on this machine: the id that clients use, and how the engine is asked for it."""

    id: str
    choice: ModelChoice


@dataclass(frozen=True, slots=True)
class ApiServices:
    """`current` is the model of requests that name none; `template` reads a model's chat template.

    Requests take turns: one of the API's is in the engine's queue at a time, so that the page waits for one of them
    at most, however many there are. The others wait in the order they came."""

    engine: ApiEngine
    current: Callable[[], ServedModel]
    installed: Callable[[], Sequence[ServedModel]]
    embedder: Callable[[], ModelFolder | None]
    template: Callable[[ModelChoice], str] = lambda _choice: ""
    turns: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def tool_template(self, model: ServedModel) -> ToolTemplate:
        """How the model is told of tools."""
        return tool_template(await asyncio.to_thread(self.template, model.choice))

    def models(self) -> list[ServedModel]:
        """The current model first, then the others on this machine."""
        current = self.current()
        return [current, *(one for one in self.installed() if one.id != current.id)]

    async def chosen(self, name: str | None) -> ServedModel:
        """As `find`, without holding up the event loop where the disk has to be read."""
        wanted = name or ""
        return self.current() if self._is_current(wanted) else await asyncio.to_thread(self.find, wanted)

    def find(self, name: str) -> ServedModel:
        """The model of this id, on the current one's device; "" is the current one. Never downloads.

        Raises ApiError."""
        current = self.current()
        if self._is_current(name):
            return current
        for model in self.installed():
            if name in (model.id, model.choice.name):
                return replace(model, choice=replace(model.choice, device=current.choice.device))
        raise ApiError(
            f"There is no model {name!r} on this machine: GET /v1/models lists those that are here.",
            "model", 404, "model_not_found",
        )  # fmt: skip

    def _is_current(self, name: str) -> bool:
        current = self.current()
        return name in ("", current.id, current.choice.name)
