"""One reply as a page follows it: its events are folded once, for the thread, the live numbers and the X-ray."""

from collections.abc import Callable
from dataclasses import replace

from app.conversation import ReplyState, StartedReply, TokenReader, fold
from app.conversation.thinking import ThoughtClock
from app.ui.chat.reply_text import LiveReplyText, cited_html
from app.ui.live.step_history import TracedReply, extend
from app.values.messages import Piece


class ReplyProgress(TracedReply):
    """A reply as far as it was read. One thread at a time reads on; `state` and `history` are values."""

    def __init__(self, writing: StartedReply, reader: Callable[[], TokenReader]) -> None:
        super().__init__(writing, reader)
        self.state = ReplyState(text=writing.before.text)
        self._text = LiveReplyText()
        self._clock = ThoughtClock(writing.before)
        self._events_read = 0
        if writing.before.text:
            self._text.update(self.state.text, self._clock.seconds(self.state.text))

    @property
    def blocks(self) -> tuple[str, ...]:
        """The reply as far as it is written, as blocks of HTML."""
        message, sources = self.writing.message, self.writing.before.sources
        unchecked = sources and replace(sources, unsupported=())
        return tuple(cited_html(block, message, unchecked) for block in self._text.blocks)

    @property
    def is_slow(self) -> bool:
        """Whether the next read may take more than some milliseconds."""
        return self._text.is_slow

    def read(self) -> bool:
        """Fold the new events, and return whether there were any."""
        events = self.writing.reply.wait(self._events_read, timeout=0)
        if not events:
            return False
        self._events_read += len(events)
        pieces = [event for event in events if isinstance(event, Piece)]
        if pieces and not self.history.traced:
            self.reader = self._newest_reader()  # the model was loaded before its first token came
        self.state = fold(self.state, events)
        self.history = extend(self.history, events)
        for piece in pieces:
            self._clock.take(piece)
        self._text.update(self.state.text, self._clock.seconds(self.state.text))
        return True
