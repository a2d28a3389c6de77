"""What conversations, races and commands need of the engine: `app.engine.Engine`, or a fake in tests."""

from collections.abc import Callable, Sequence
from typing import Protocol

from app.conversation.reply import Reply
from app.values.logits import Grammar
from app.values.messages import EngineStatus, Message, ModelChoice, Request


class TokenReader(Protocol):
    """The loaded model's tokenizer, for any thread. Without a model every count is 0 and every text is empty."""

    @property
    def context(self) -> int:
        """The model's context length in tokens; 0 without a model."""

    def count(self, chat: tuple[Message, ...]) -> int:
        """The prompt tokens of this chat, its template included. Raises BadOption when the template refuses it."""

    def texts(self, ids: Sequence[int]) -> tuple[str, ...]:
        """The text of each token by itself; incomplete characters are U+FFFD."""


class ReplyEngine(Protocol):
    """Writes replies."""

    def submit(self, request: Request, reply: Reply) -> None:
        """Queues the request; its events are appended to `reply` on the engine's thread."""

    def reader(self) -> TokenReader:
        """The tokenizer of the model that is loaded now."""


class ChatEngine(ReplyEngine, Protocol):
    """Says whether replies can be held to a grammar, too."""

    def check_grammar(self, grammar: Grammar) -> None:
        """Raises GrammarRefused for a grammar that replies cannot be held to; may take a few seconds."""


class ModelEngine(ChatEngine, Protocol):
    """Loads models, too."""

    def load(self, choice: ModelChoice, ended: Callable[[bool], None]) -> None:
        """Asks to load this model; `status` has the progress, `ended` gets whether it is loaded."""

    def unload(self) -> None:
        """Asks to unload the model."""

    def status(self) -> EngineStatus:
        """What the engine does now."""
