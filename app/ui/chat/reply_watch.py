"""The steps of the newest reply in the chat that is looked at, for the X-ray."""

import threading
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import asdict

from app.conversation import Writing
from app.messages import Piece, Statistics
from app.ui.desk import Desk
from app.ui.live.port import KEPT_STEPS, Recording, SeenStep


class ReplyWatch:
    """Reads on in the reply's log whenever it is asked. Safe to use from any thread."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._writing: Writing | None = None
        self._steps: deque[SeenStep] = deque(maxlen=KEPT_STEPS)
        self._statistics = Statistics()
        self._read = 0
        self._reader = desk.engine.reader()
        self._lock = threading.Lock()

    def recording(self) -> Recording:
        """The newest steps; none where no reply was asked for since the app began."""
        with self._lock:
            self._follow(self._desk.conversations.newest(self._desk.chat))
            if self._writing is None:
                return Recording()
            return Recording(tuple(self._steps), self._statistics, _settings(self._writing))

    def texts(self, ids: Sequence[int]) -> tuple[str, ...]:
        """What each token says to the model that wrote it."""
        return self._reader.texts(ids)

    def _follow(self, writing: Writing | None) -> None:
        if writing is not self._writing:
            self._writing, self._read, self._statistics = writing, 0, Statistics()
            self._steps.clear()
        if writing is None:
            return
        events = writing.reply.wait(self._read, timeout=0)
        self._read += len(events)
        for event in events:
            if isinstance(event, Piece):
                self._statistics = event.statistics
                self._reader = self._reader if self._steps else self._desk.engine.reader()
                if event.trace.tokens:
                    self._steps.append(SeenStep(event.trace, event.token_ids))


def _settings(writing: Writing) -> Mapping[str, object]:
    return {"model": asdict(writing.asked.model), "options": asdict(writing.asked.options)}
