"""What a chat takes in tokens and what tokens say, for any thread, while the worker decodes.

Fast tokenizers are not safe to share between threads, so a reader has one of its own, behind a lock. It is a
snapshot: what it says is true of the model that was loaded when it was asked for. Before one is, all is nothing.
"""

import threading
from collections.abc import Callable, Sequence
from functools import lru_cache

from app.messages import Message

Chat = tuple[Message, ...]

REMEMBERED = 256
"""Chats whose count is known without counting: a page asks for the same ones again and again."""


class Reader:
    """Counts and shows tokens as the loaded model's tokenizer does. `context` are the tokens it has room for."""

    def __init__(
        self,
        context: int = 0,
        count: Callable[[Chat], int] = lambda _chat: 0,
        text: Callable[[int], str] = lambda _token: "",
    ) -> None:
        """`count` and `text` are called by one thread at a time."""
        self.context = context
        self._lock = threading.Lock()
        self._count = lru_cache(REMEMBERED)(count)
        self._text = lru_cache(None)(text)  # never more than the vocabulary

    def count(self, chat: Chat) -> int:
        """Tokens of this chat as it is sent, up to where the reply begins; 0 for no messages.

        Raises BadOption when the model's template refuses the chat."""
        with self._lock:
            return self._count(chat) if chat else 0

    def texts(self, ids: Sequence[int]) -> tuple[str, ...]:
        """Each token by itself, special ones by their names; half characters are U+FFFD."""
        with self._lock:
            return tuple(map(self._text, ids))
