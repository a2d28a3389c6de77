"""The steps of each chat's newest reply, for the X-ray of whoever looks at it."""

import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict

from app.conversation import StartedReply, TokenReader
from app.messages import Piece, Statistics
from app.ui.live.port import KEPT_STEPS, Recording, SeenStep
from app.ui.services import Services


class ReplyWatch:
    """Reads on in a reply's log whenever it is asked. Safe to use from any thread."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._watched: dict[int, _Watched] = {}
        self._lock = threading.Lock()

    def recording(self, chat: int) -> Recording:
        """The newest steps; none where no reply was asked for in this chat since the app began."""
        with self._lock:
            self._forget()
            writing = self._services.conversations.newest_reply(chat)
            if writing is None:
                return Recording()
            watched = self._watched.get(chat)
            if watched is None or watched.writing is not writing:
                watched = self._watched[chat] = _Watched(writing, self._services.engine.reader())
            watched.read(self._services.engine.reader)
            return Recording(tuple(watched.steps), watched.statistics, _settings(writing))

    def texts(self, chat: int, ids: Sequence[int]) -> tuple[str, ...]:
        """What each token says to the model that wrote the chat's reply."""
        with self._lock:
            watched = self._watched.get(chat)
        return (watched.reader if watched else self._services.engine.reader()).texts(ids)

    def _forget(self) -> None:
        for chat in tuple(self._watched):
            if self._services.conversations.newest_reply(chat) is None:
                del self._watched[chat]


class _Watched:
    """A reply as far as it was read."""

    def __init__(self, writing: StartedReply, reader: TokenReader) -> None:
        self.writing = writing
        self.reader = reader
        self.steps: deque[SeenStep] = deque(maxlen=KEPT_STEPS)
        self.statistics = Statistics()
        self._read = 0

    def read(self, newest_reader: Callable[[], TokenReader]) -> None:
        """Take in the new steps; the model that writes the first one is loaded then."""
        events = self.writing.reply.wait(self._read, timeout=0)
        self._read += len(events)
        for event in events:
            if isinstance(event, Piece):
                self.statistics = event.statistics
                self.reader = self.reader if self.steps else newest_reader()
                if event.trace.tokens:
                    self.steps.append(SeenStep(event.trace, event.token_ids))


def _settings(writing: StartedReply) -> Mapping[str, object]:
    return {"model": asdict(writing.settings.model), "options": asdict(writing.settings.options)}
