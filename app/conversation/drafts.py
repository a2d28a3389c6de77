"""Saves drafts, which are texts that are typed and not sent."""

import logging
import threading

from app.chats.chats import ChatStores
from app.errors import StoreError

SAVE_SECONDS = 0.2
"""Seconds until a typed text is saved, so that a killed app loses less than a second of typing."""
log = logging.getLogger(__name__)


class Drafts:
    """The drafts of all chats. They are saved, so that a reload or a restart finds them.

    Safe to use from any thread."""

    def __init__(self, stores: ChatStores, seconds: float = SAVE_SECONDS) -> None:
        self._stores = stores
        self._seconds = seconds
        self._unsaved: dict[int, str] = {}
        self._timer: threading.Timer | None = None
        self._is_closed = False
        self._lock = threading.RLock()

    def of(self, chat: int) -> str:
        """Returns the chat's draft, "" for none. Chat 0 is the new chat, which is not stored yet."""
        with self._lock:
            if chat in self._unsaved:
                return self._unsaved[chat]
            return self._stores.of(chat).draft(chat)

    def keep(self, chat: int, text: str) -> None:
        """Remembers the text typed in a chat. It is saved SAVE_SECONDS after the first unsaved change."""
        with self._lock:
            if self._is_closed:
                return
            self._unsaved[chat] = text
            if self._timer is None:
                self._timer = threading.Timer(self._seconds, self.save)
                self._timer.daemon = True
                self._timer.start()

    def close(self) -> None:
        """Saves all unsaved drafts. Text typed afterwards is not kept."""
        with self._lock:
            self.save()
            self._is_closed = True

    def clear(self) -> None:
        with self._lock:
            self._unsaved.clear()

    def save(self) -> None:
        """Saves all unsaved drafts. If a draft cannot be saved, this is tried again with the next draft."""
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
