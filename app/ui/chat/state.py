"""What the server keeps for one page's chat. Pages share the services, and each shows a chat of its own."""

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from time import monotonic

from app.ui.chat.messages import MESSAGE_LIMIT
from app.ui.chat.reply_progress import ReplyProgress
from app.values.chat import ChatPreset, ChatSettings, ChatVersion

CHAT_LIMIT = 100
"""How many chats the sidebar lists at first."""


@dataclass(frozen=True, slots=True)
class Deletion:
    """What was deleted or replaced, so that it can be restored: `message` is the sentence about it.

    `deleted` are the chats that went, `moved` those that stayed and are in no folder now; `folder` is the folder
    that all of them were in, "" where none was removed. `opened` was the chat on the page; `preset` is one that was
    deleted or replaced; `at` is in seconds."""

    message: str
    deleted: tuple[int, ...] = ()
    moved: tuple[int, ...] = ()
    folder: str = ""
    opened: int = 0
    preset: ChatPreset | None = None
    at: float = 0.0


class SentTexts:
    """Tells what a page sent of a text from what another page stored.

    While somebody types, each state of the text is stored, and read back a moment later when more has been typed.
    A text that was sent from here must not be put into the box again; another page's must:

        sent "B", "Be", "Be k"      stored "Be"       sent here: "B" is past, "Be k" still to come
                                    stored "Be k"     sent here
                                    stored "Hush"     from another page

    One thread adds, another asks."""

    def __init__(self) -> None:
        self._sent: deque[str] = deque(maxlen=100)

    def add(self, text: str) -> None:
        """Remember a text. Call this before it is stored."""
        self._sent.append(text)

    def has(self, stored: str) -> bool:
        """Return whether the stored text was sent from here, and forget what was sent before it."""
        is_own = stored in self._sent
        while self._sent and not (is_own and self._sent[0] == stored):
            self._sent.popleft()
        return is_own


@dataclass(slots=True)
class ChatState:
    """One page's chat, its sidebar, and the reply that it follows; used by the page's events and its renderer.

    `version` is the chat as the page was last drawn, by which a page that is out of date is noticed. A chat that is
    not begun yet is chat 0, with the `settings` it will have and whether it `is_private`. `opened` counts how often
    the page changed its chat. `sent` is the message that was sent last, until another one is typed; `filled` is
    `opened` as it was when the message box was filled. `deletions` can be undone, the newest last; `expanded` tells
    which folders were expanded or collapsed. `new_settings` makes what a new chat begins with."""

    version: ChatVersion = field(default_factory=ChatVersion)
    opened: int = 0
    settings: ChatSettings = field(default_factory=ChatSettings)
    is_private: bool = False
    message_limit: int = MESSAGE_LIMIT
    coloured: frozenset[int] = frozenset()
    draft: str = ""
    sent: str = ""
    filled: int = 0
    sent_settings: SentTexts = field(default_factory=SentTexts)
    reply: ReplyProgress | None = None
    search: str = ""
    deletions: tuple[Deletion, ...] = ()
    expanded: Mapping[str, bool] = field(default_factory=dict)
    chat_limit: int = CHAT_LIMIT
    new_settings: Callable[[], ChatSettings] = ChatSettings

    def open_chat(self, version: ChatVersion) -> None:
        """Show this chat, from its newest messages on."""
        self.version, self.message_limit, self.coloured = version, MESSAGE_LIMIT, frozenset()
        self.is_private, self.settings, self.sent_settings = False, self.new_settings(), SentTexts()
        self.opened += 1

    def new_chat(self, is_private: bool = False) -> None:
        """Show an empty page for a new chat."""
        self.open_chat(ChatVersion())
        self.is_private = is_private

    def remember(self, deletion: Deletion) -> None:
        """Offer to undo this."""
        self.deletions = (*self.deletions, replace(deletion, at=monotonic()))

    def finish(self, version: ChatVersion, opened: int) -> bool:
        """Show the result of an action that began at `opened`, unless the page has changed its chat since."""
        if self.opened != opened:
            return False
        self.version, self.draft = version, ""
        return True
