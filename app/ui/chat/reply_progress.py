"""A reply that a page follows: its events are processed once, for chat, live numbers and X-ray."""

from collections.abc import Callable

from app.conversation import CachedTokenReader, ReplySoFar, StartedReply
from app.ui.chat.reply_text import LiveReplyText, cited_html
from app.ui.live.step_history import TracedReply, extend
from app.values.messages import Piece


class ReplyProgress(TracedReply):
    """A reply as far as this page has read it. Only one thread may call `read`."""

    def __init__(self, writing: StartedReply, reader: Callable[[], CachedTokenReader]) -> None:
        super().__init__(writing, reader)
        self._so_far = ReplySoFar(writing.before)
        self.state = self._so_far.state
        self._text = LiveReplyText()
        self._events_read = 0
        if writing.before.text:
            self._text.update(self.state.text, self._so_far.thought, calls=self.state.calls)

    @property
    def blocks(self) -> tuple[str, ...]:
        message, sources = self.writing.message, self.writing.before.sources
        unchecked = sources and sources.unchecked
        return tuple(cited_html(block, message, unchecked) for block in self._text.blocks)

    @property
    def is_slow(self) -> bool:
        return self._text.is_slow

    def read(self) -> bool:
        """Process the new events; returns whether there is something new to show."""
        events = self.writing.reply.wait(self._events_read, timeout=0)
        if not events and not self._text.is_behind:
            return False
        self._events_read += len(events)
        if any(isinstance(event, Piece) for event in events) and not self.history.traced:
            self.reader = self._newest_reader()  # the reply's model was loaded before the first token
        self._so_far.take(events)
        self.state = self._so_far.state
        self.history = extend(self.history, events)
        self._text.update(self.state.text, self._so_far.thought, calls=self.state.calls)
        return bool(events) or not self._text.is_behind
