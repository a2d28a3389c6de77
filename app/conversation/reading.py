"""What a chat's page needs to know of tokens while the engine is busy."""

from collections.abc import Sequence
from typing import Protocol

from app.messages import Message


class Reads(Protocol):
    """Counts and shows tokens of the loaded model, on any thread; without a model all is nothing."""

    @property
    def context(self) -> int:
        """Tokens that the model has room for, 0 while there is none."""

    def count(self, chat: tuple[Message, ...]) -> int:
        """Tokens of this chat as it is sent, up to where the reply begins. BadOption when it cannot be."""

    def texts(self, ids: Sequence[int]) -> tuple[str, ...]:
        """Each token by itself; half characters are U+FFFD."""
