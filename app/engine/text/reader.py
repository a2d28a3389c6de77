"""What a chat takes in tokens and what tokens say, for any thread, while the worker decodes.

A fast tokenizer must not be used while another thread changes how it reads, so a reader's is not the worker's. It
is a snapshot: what it says is true of the model that was loaded when it was asked for. Before that all is nothing.
"""

import re
import threading
from collections.abc import Callable, Sequence
from functools import lru_cache

from app.values.messages import Message

Chat = tuple[Message, ...]

FAR = 2
"""A chat that surely has more than so many times the context's tokens is not tokenised to be counted."""
REMEMBERED = 256
"""Chats whose count is known without counting: a page asks for the same ones again and again."""


class CachedTokenReader:
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

        Of one that has FAR times as many as the context holds it is the fewest that it can have.

        Raises BadOption when the model's template refuses the chat."""
        with self._lock:
            return self._count(chat) if chat else 0

    def texts(self, ids: Sequence[int]) -> tuple[str, ...]:
        """Each token by itself, special ones by their names; half characters are U+FFFD."""
        with self._lock:
            return tuple(map(self._text, ids))


Count = Callable[[str], int]
"""A text -> how many tokens it has."""

PARTS = 8192
"""Parts that are remembered: a long chat has two or three for each of its messages."""
TRIED = 8
"""Special tokens that are tried: many models have hundreds of the same kind."""


def in_parts(whole: Count, borders: Sequence[str]) -> Count:
    """As `whole` counts, part by part between these special tokens; `whole` itself where that is not the same."""
    if not borders:
        return whole
    longest_first = sorted(borders, key=len, reverse=True)
    border = re.compile(f"({'|'.join(map(re.escape, longest_first))})")
    known = lru_cache(PARTS)(whole)

    def count(text: str) -> int:
        return sum(known(part) for part in border.split(text) if part)

    return count if all(count(text) == whole(text) for text in _trials(borders)) else whole


def _trials(borders: Sequence[str]) -> list[str]:
    """Texts in which a part that is read unlike others shows."""
    return [
        separator.join((first, second, "a", first, " a", second, "\n\na ", first))
        for first, second in zip(borders[:TRIED], borders[-TRIED:], strict=True)
        for separator in ("", "x", " ", "\n")
    ]
