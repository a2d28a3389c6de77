"""Messages that were typed while a reply was being written. They are sent one after the other, each when the reply
before it is complete."""

import threading
from collections.abc import Callable

from app.chats.chats import ChatStores
from app.conversation.turn import NewQuestion, ReplySettings, Turn
from app.errors import AppError
from app.values.chat import ChatVersion, QueuedMessage


class StillWriting(AppError):
    def __init__(self) -> None:
        super().__init__("A reply is still being written. Wait until it ends, or stop it first.")


class MessageQueue:
    """The queues of all chats. They are stored; after a restart they wait until the user sends them.

    A queue also waits after a reply that was stopped or failed, and after a message that could not be sent. Safe to
    use from any thread."""

    def __init__(
        self, stores: ChatStores, start: Callable[[Turn], ChatVersion], is_writing: Callable[[int], bool]
    ) -> None:
        self._stores = stores
        self._start = start
        self._is_writing = is_writing
        self._settings: dict[int, ReplySettings] = {}  # chats whose queues are being sent
        self._reasons: dict[int, str] = {}
        self._lock = threading.Lock()

    def of(self, chat: int) -> tuple[QueuedMessage, ...]:
        """Returns the chat's messages that wait to be sent, in their order."""
        return self._stores.of(chat).queued(chat) if chat else ()

    def is_sending(self, chat: int) -> bool:
        """Returns whether the chat's messages are sent when its reply ends."""
        return chat in self._settings

    def reason(self, chat: int) -> str:
        """Returns why the chat's queue has to wait for the user; "" if a later reply has begun since."""
        return self._reasons.get(chat, "")

    def takes(self, chat: int) -> bool:
        """Returns whether a message that is sent now has to wait."""
        return self._is_writing(chat) or (self.is_sending(chat) and bool(self.of(chat)))

    def add(self, chat: int, text: str, settings: ReplySettings) -> None:
        """Adds a message to the chat's queue. If the queue waits for the user, it keeps waiting. Otherwise all its
        messages are sent with these settings, one after each reply."""
        if self.is_sending(chat) or not self.of(chat):
            self._settings[chat] = settings
        self._stores.of(chat).add_queued(chat, text)
        self.send_next(chat)  # the reply may have ended meanwhile

    def restore(self, chat: int, removed: QueuedMessage) -> None:
        """Adds a removed message again, at its former position. If the reply has ended meanwhile, the queue waits
        for the user."""
        if not self._is_writing(chat):
            self.hold(chat, "The reply has ended.")
        self._stores.of(chat).add_queued(chat, removed.text, removed.id)

    def send(self, chat: int, settings: ReplySettings) -> None:
        """Sends a queue that was waiting for the user, with these settings."""
        self._settings[chat] = settings
        self.send_next(chat)

    def hold(self, chat: int, reason: str) -> None:
        """Makes the chat's queue wait until the user sends it. Does nothing to a queue that waits already."""
        if self._settings.pop(chat, None):
            self._reasons[chat] = reason

    def forget_reason(self, chat: int) -> None:
        """Forgets why the chat's queue waits, because a later reply begins."""
        self._reasons.pop(chat, None)

    def close(self) -> None:
        """Pauses all queues, because the app ends. Waits until no message is being sent."""
        with self._lock:
            self._settings.clear()

    def send_next(self, chat: int) -> None:
        """Sends waiting messages until a reply is being written. Does nothing if the queue waits for the user."""
        with self._lock:
            while (settings := self._settings.get(chat)) and not self._is_writing(chat):
                try:
                    if not (waiting := self.of(chat)):
                        return
                    version = self._stores.of(chat).thread(chat, 1).version
                    self._start(NewQuestion(version, settings, waiting[0].text, queued=waiting[0].id))
                except StillWriting:
                    return  # another page has sent a message; when its reply ends, this is called again
                except AppError as error:
                    self.hold(chat, str(error))
