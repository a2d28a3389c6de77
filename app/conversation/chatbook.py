"""All chats of the person: those on disk, and private ones that only memory has, told apart by their ids."""

from app.chat_messages import ChatSettings, ChatSummary, ChatVersion
from app.chats import Chats

FIRST_PRIVATE = 2**40
"""Private chats count from here on, so that an id says which store has the chat."""


class Chatbook:
    """Two stores as one. Thread-safe as they are."""

    def __init__(self, stored: Chats, private: Chats) -> None:
        """`private` is empty; its chats count from FIRST_PRIVATE on."""
        self.stored = stored
        self.private = private
        private.count_from(FIRST_PRIVATE)

    @property
    def changes(self) -> tuple[int, int]:
        """Counts that differ once anything was changed through these stores."""
        return self.stored.changes, self.private.changes

    def of(self, chat: int) -> Chats:
        """The store that has this chat."""
        return self.private if chat >= FIRST_PRIVATE else self.stored

    def begin(self, manner: ChatSettings, is_private: bool, question: str) -> tuple[ChatVersion, int]:
        """A new chat with its first question and an empty reply; the reply's id."""
        return (self.private if is_private else self.stored).begin(manner, question)

    def delete_all(self) -> None:
        """Forget every chat for good, private ones too."""
        self.private.delete_all()
        self.stored.delete_all()

    def lines(self) -> tuple[ChatSummary, ...]:
        """Every chat, private ones first."""
        return (*self.private.lines(), *self.stored.lines())


def is_private(chat: int) -> bool:
    """Whether this chat is in memory alone."""
    return chat >= FIRST_PRIVATE
