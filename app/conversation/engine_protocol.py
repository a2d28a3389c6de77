"""The engine as the rest of the app asks it: for replies, models and, for documents, embeddings.

`ModelEngine` is either `app.engine.Engine` or the EngineWithServers of remote_engine.py.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Protocol

from app.conversation.reply import Reply
from app.documents.embedding import Vectors
from app.engine import Engine
from app.engine.text.reader import CachedTokenReader
from app.errors import ModelNotFound
from app.values.logits import Grammar
from app.values.messages import EngineStatus, ModelChoice, ModelFolder, Request

FindEmbedder = Callable[[], ModelFolder | None]
"""Returns the folder of the embedding model; None while it is not on this machine. Never downloads."""


class ReplyEngine(Protocol):
    """Writes replies."""

    def submit(self, request: Request, reply: Reply) -> None:
        """Queues the request; its events are appended to `reply` on the engine's thread."""

    def reader(self) -> CachedTokenReader:
        """Returns the tokenizer of the model that is loaded now."""


class ModelEngine(ReplyEngine, Protocol):
    """Loads models, too, and checks grammars."""

    def check_grammar(self, grammar: Grammar) -> None:
        """Raises GrammarRefused for a grammar that replies cannot be held to; may take a few seconds."""

    def load(self, choice: ModelChoice, ended: Callable[[bool], None]) -> None:
        """Asks to load this model; `status` has the progress, `ended` gets whether it is loaded."""

    def unload(self) -> None:
        """Asks to unload the model."""

    def status(self) -> EngineStatus:
        """Tells what the engine does now."""


class EngineEmbedder:
    """Embeds documents' texts when no reply is being written. Has no model until its folder is there."""

    def __init__(self, engine: Engine, find: FindEmbedder) -> None:
        self._engine = engine
        self._find = find

    @property
    def model(self) -> str:
        """The model's name and revision; "" without a model."""
        folder = self._find()
        return f"{folder.name}@{folder.revision}" if folder else ""

    def embed(self, texts: Sequence[str]) -> Future[Vectors]:
        """Queues these texts; `result()` raises ModelNotFound if the model is not, or no longer, there."""
        folder = self._find()
        if folder:
            return self._engine.embed(folder, texts)
        failed: Future[Vectors] = Future()
        failed.set_exception(ModelNotFound("The embedding model is not on this machine. Download it first."))
        return failed
