"""What is typed and not sent yet, by chat. It is saved a moment later, so that a reload or a restart finds it."""

import logging
import threading

from app.chats import ChatStores
from app.errors import StoreError

SAVE_SECONDS = 1.0
"""Drafts are saved no more often than this: every change of the database has the pages look at it again."""
log = logging.getLogger(__name__)


class Drafts:
    """The drafts of all chats. Safe to use from any thread."""

    def __init__(self, stores: ChatStores, seconds: float = SAVE_SECONDS) -> None:
        self._stores = stores
        self._seconds = seconds
        self._unsaved: dict[int, str] = {}
        self._timer: threading.Timer | None = None
        self._is_closed = False
        self._lock = threading.RLock()

    def of(self, chat: int) -> str:
        """The chat's draft, "" for none; chat 0 is the one that is not begun yet."""
        with self._lock:
            if chat in self._unsaved:
                return self._unsaved[chat]
            return self._stores.of(chat).draft(chat)

    def keep(self, chat: int, text: str) -> None:
        """Remembers what is typed in a chat."""
        with self._lock:
            if self._is_closed:
                return
            self._unsaved[chat] = text
            if self._timer is None:
                self._timer = threading.Timer(self._seconds, self.save)
                self._timer.daemon = True
                self._timer.start()

    def close(self) -> None:
        """Saves what is not saved yet. What is typed afterwards is not kept."""
        with self._lock:
            self.save()
            self._is_closed = True

    def clear(self) -> None:
        """Forgets what is not saved yet."""
        with self._lock:
            self._unsaved.clear()

    def save(self) -> None:
        """Saves what is not saved yet. What cannot be saved is tried again with the next draft."""
        with self._lock:
            if self._timer:
                self._timer.cancel()
            self._timer = None
            for chat, text in tuple(self._unsaved.items()):
                try:
                    self._stores.of(chat).set_draft(chat, text)
                    del self._unsaved[chat]
                except StoreError as error:
                    log.warning("A draft could not be saved: %s", error)
                    return
