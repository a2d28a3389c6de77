"""The engine as the rest of the app uses it: for replies, for models and for embeddings of documents.

A `ModelEngine` is either `app.engine.Engine` or the EngineWithServers of remote_engine.py.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Protocol

from app.documents.embedding import Vectors
from app.engine import Engine
from app.engine.text.token_counter import CachedTokenReader
from app.errors import ModelNotFound
from app.values.logits import Grammar
from app.values.messages import EngineStatus, EventSink, ModelChoice, ModelFolder, Request

FindEmbedder = Callable[[], ModelFolder | None]
"""Returns the folder of the embedding model, or None if it is not on this machine. Never downloads it."""


class ReplyEngine(Protocol):
    def submit(self, request: Request, reply: EventSink) -> None:
        """Queues the request. Its events are appended to `reply` on another thread."""

    def reader(self) -> CachedTokenReader:
        """Returns the tokenizer of the loaded model, or an empty reader if no model is loaded."""


class ModelEngine(ReplyEngine, Protocol):
    """An engine that writes replies, loads models and checks grammars."""

    def check_grammar(self, grammar: Grammar) -> None:
        """Raises GrammarRefused if replies cannot be made to match this grammar. May take a few seconds."""

    def load(self, choice: ModelChoice, ended: Callable[[bool], None]) -> None:
        """Asks to load this model. `status` reports the progress; at the end `ended` is called, with True if the
        model is loaded."""

    def cancel_load(self) -> None: ...

    def unload(self) -> None: ...

    def status(self) -> EngineStatus: ...


class EngineEmbedder:
    """Embeds documents' texts on the engine while no reply is being written, if the model is on this machine."""

    def __init__(self, engine: Engine, find: FindEmbedder) -> None:
        self._engine = engine
        self._find = find

    @property
    def model(self) -> str:
        """The model's name and revision as name@revision; "" without a model."""
        folder = self._find()
        return f"{folder.name}@{folder.revision}" if folder else ""

    def embed(self, texts: Sequence[str]) -> Future[Vectors]:
        """Queues these texts. The future's `result()` raises ModelNotFound if the model is not on this machine."""
        folder = self._find()
        if folder:
            return self._engine.embed(folder, texts)
        failed: Future[Vectors] = Future()
        failed.set_exception(ModelNotFound("The embedding model is not on this machine. Download it first."))
        return failed
