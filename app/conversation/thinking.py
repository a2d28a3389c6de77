"""How long a reply's <think> block took, by the reply's own clock."""

from app.chat_messages import Written
from app.messages import Piece

END = "</think>"


class ThoughtClock:
    """Looks for the end of the thinking in the newest text alone."""

    def __init__(self, before: Written) -> None:
        self.seconds = before.thought
        self._tail = before.text[-len(END) :]

    def take(self, piece: Piece) -> None:
        """Read on; the first end counts."""
        if self.seconds:
            return
        tail = self._tail + piece.text
        if END in tail:
            numbers = piece.statistics
            self.seconds = numbers.time_to_first_token + numbers.seconds
        self._tail = tail[-len(END) :]
