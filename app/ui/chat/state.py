"""What the server keeps for one page's chat. Pages share the services, and each shows a chat of its own."""

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from app.ui.chat.messages import MESSAGE_LIMIT
from app.ui.chat.reply_progress import ReplyProgress
from app.values.chat import ChatSettings, ChatVersion

CHAT_LIMIT = 100
"""How many chats the sidebar lists at first."""
MOST_CHANGES = 8
"""How many of the last changes of the message box are sent again, because a page may have missed some."""


class SentTexts:
    """Distinguishes the texts that a page sent from the texts that another page stored, which the page must show.
    While the user types, each state of the text is stored, and read back a moment later:

        sent "B", "Be", "Be k"      stored "Be"       sent here: "B" is outdated, "Be k" is still to come
                                    stored "Hush"     from another page

    One thread may call `add` while another one calls `has`."""

    def __init__(self) -> None:
        self._sent: deque[str] = deque(maxlen=100)

    def add(self, text: str) -> None:
        """Remember a text that is about to be stored. Call this before storing it."""
        self._sent.append(text)

    def has(self, stored: str) -> bool:
        """Return whether this page sent the stored text. Forgets the texts that were sent before it; if the
        page did not send it, forgets all texts."""
        is_own = stored in self._sent
        while self._sent and not (is_own and self._sent[0] == stored):
            self._sent.popleft()
        return is_own


@dataclass(frozen=True, slots=True)
class BoxChange:
    """A change of the message box that the page has to make once. `taken` is removed from the box's beginning, if
    it is still there, and `given` is put before what is typed. Changes are numbered from 1 on."""

    number: int
    taken: str = ""
    given: str = ""


@dataclass(slots=True)
class ChatState:
    """One page's chat, its sidebar, and the reply that it follows; used by the page's events and its renderers.

    `version` is the version of the chat that the page shows, so that actions of an outdated page are noticed. Chat
    0 has not begun; `settings` and `is_private` are the values with which it will begin. `opened` counts how often
    the page changed its chat. `draft` is the text in the message box, `sent` the last sent message until the user
    types something else, and `box_changes` are the app's last changes of the box. `filled` and `boxed` are the
    values of `opened` when the message box and the settings' boxes were last filled. While `boxed` differs from
    `opened`, the settings' boxes show the chat `left`. `expanded` maps the folders that the user expanded or
    collapsed to whether they are expanded. `new_settings` makes the settings of a new chat."""

    version: ChatVersion = field(default_factory=ChatVersion)
    opened: int = 0
    settings: ChatSettings = field(default_factory=ChatSettings)
    is_private: bool = False
    message_limit: int = MESSAGE_LIMIT
    coloured: frozenset[int] = frozenset()
    draft: str = ""
    sent: str = ""
    filled: int = 0
    boxed: int = 0
    left: int = 0
    box_changes: tuple[BoxChange, ...] = ()
    sent_settings: SentTexts = field(default_factory=SentTexts)
    reply: ReplyProgress | None = None
    search: str = ""
    expanded: Mapping[str, bool] = field(default_factory=dict)
    chat_limit: int = CHAT_LIMIT
    new_settings: Callable[[], ChatSettings] = ChatSettings

    def open_chat(self, version: ChatVersion) -> None:
        """Show this chat from its newest messages on, and reset what belongs to the former chat."""
        self.left = self.version.chat if self.boxed == self.opened else self.left
        self.version, self.message_limit, self.coloured = version, MESSAGE_LIMIT, frozenset()
        self.is_private, self.settings, self.sent_settings = False, self.new_settings(), SentTexts()
        self.opened += 1

    def new_chat(self, is_private: bool = False) -> None:
        self.open_chat(ChatVersion())
        self.is_private = is_private

    def change_box(self, taken: str = "", given: str = "") -> None:
        """Change the text of the message box, without touching what is typed meanwhile."""
        number = self.box_changes[-1].number + 1 if self.box_changes else 1
        self.box_changes = (*self.box_changes, BoxChange(number, taken, given))[-MOST_CHANGES:]

    def finish(self, version: ChatVersion, opened: int) -> bool:
        """Show the result of an action that began at `opened`. Returns False if another chat was opened since."""
        if self.opened != opened:
            return False
        self.version = version
        return True
