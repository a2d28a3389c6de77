"""The database of stored chats and one in memory for private chats. A chat's id tells where it is."""

from app.chats.chats import Chats
from app.values.chat import ChatSummary

FIRST_PRIVATE = 2**40
"""Ids of private chats begin here."""


class ChatStores:
    """Stored and private chats. As thread-safe as the stores are."""

    def __init__(self, stored: Chats, private: Chats) -> None:
        """`private` is empty; its ids begin at FIRST_PRIVATE."""
        self.stored = stored
        self.private = private
        private.count_from(FIRST_PRIVATE)

    @property
    def changes(self) -> tuple[int, int]:
        """Change counters of both stores."""
        return self.stored.changes, self.private.changes

    def of(self, chat: int) -> Chats:
        """Returns the store that has this chat."""
        return self.private if is_private(chat) else self.stored

    def delete_all(self) -> None:
        """Deletes every chat for good, private ones included."""
        self.private.delete_all()
        self.stored.delete_all()

    def summaries(self) -> tuple[ChatSummary, ...]:
        """Every chat, private ones first."""
        return (*self.private.summaries(), *self.stored.summaries())


def is_private(chat: int) -> bool:
    """Whether this chat exists only in memory."""
    return chat >= FIRST_PRIVATE
