"""One reply, folded as it comes: what is new of its log at every look, and nothing twice."""

from app.conversation import ReplyState, StartedReply, fold
from app.conversation.thinking import ThoughtClock
from app.messages import Piece
from app.ui.chat.citations import cited_html
from app.ui.chat.live_text import LiveText
from app.ui.live.trail import Trail, extend


class Following:
    """A reply as far as it was read. One reader."""

    def __init__(self, writing: StartedReply) -> None:
        self.writing = writing
        self.state = ReplyState(text=writing.before.text)
        self.trail = Trail()
        self._text = LiveText()
        self._clock = ThoughtClock(writing.before)
        self._read = 0
        if writing.before.text:
            self._text.update(self.state.text, self._clock.seconds(self.state.text))

    @property
    def blocks(self) -> tuple[str, ...]:
        """The reply as far as it is written, as HTML in parts."""
        writing = self.writing
        return tuple(
            cited_html(block, writing.message, writing.before.sources) for block in self._text.blocks
        )

    @property
    def is_slow(self) -> bool:
        """Whether reading on may take more than some milliseconds."""
        return self._text.is_slow

    def read(self) -> bool:
        """Take in the new events; whether there were any."""
        events = self.writing.reply.wait(self._read, timeout=0)
        self._read += len(events)
        self.state = fold(self.state, events)
        self.trail = extend(self.trail, events)
        for piece in events:
            if isinstance(piece, Piece):
                self._clock.take(piece)
        if events:
            self._text.update(self.state.text, self._clock.seconds(self.state.text))
        return bool(events)
