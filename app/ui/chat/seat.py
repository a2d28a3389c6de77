"""Where one page stands. Pages share the services, and each looks at a chat of its own."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from app.chat_messages import ChatSettings, ChatVersion
from app.ui.chat.echo import Echo
from app.ui.chat.thread import NEWEST


@dataclass(slots=True)
class Seat:
    """One page's own state, shared by its events and its watcher.

    `place` is the chat as the page was last drawn, so that a page that fell behind is noticed; a chat that was
    not begun yet is place 0, with the manner it is to have and whether it `is_private`. `deleted` are chats that
    can be brought back, with their titles, the last one last; `unfolded` are folders that were turned, and which
    way. `sitting` counts how often the page turned to a chat; `instructions` are those that were typed here."""

    sitting: int = 0
    place: ChatVersion = field(default_factory=ChatVersion)
    newest: int = NEWEST
    manner: ChatSettings = field(default_factory=ChatSettings)
    is_private: bool = False
    draft: str = ""
    words: str = ""
    deleted: tuple[tuple[int, str], ...] = ()
    unfolded: Mapping[str, bool] = field(default_factory=dict)
    listed: int = 100
    coloured: frozenset[int] = frozenset()
    instructions: Echo = field(default_factory=Echo)

    def sit_at(self, place: ChatVersion) -> None:
        """Show this chat, from its newest messages on."""
        self.place, self.newest, self.coloured = place, NEWEST, frozenset()
        self.is_private, self.manner, self.instructions = False, ChatSettings(), Echo()
        self.sitting += 1

    def go_on(self, place: ChatVersion, sitting: int) -> bool:
        """Stand where a deed begun at `sitting` led; whether the page had not turned to another chat since."""
        if self.sitting != sitting:
            return False
        self.place, self.draft = place, ""
        return True

    def begin(self, is_private: bool = False) -> None:
        """Show an empty page for a new chat."""
        self.sit_at(ChatVersion())
        self.is_private = is_private
