"""One lane's event log, read as it grows, as what the lane has written so far."""

from app.conversation.reply import Reply
from app.messages import Decoding, Event, Finished, Piece, Statistics
from app.race_messages import LaneRun


class LaneReader:
    """Follows one lane from its start. One reader: not shared between threads.

    The clock is the engine's own and starts at the first token: reading the prompt is no decoder's doing."""

    def __init__(self, decoding: Decoding, reply: Reply) -> None:
        self.run = LaneRun(decoding, decoding.decoder)
        self._reply = reply
        self._read = 0
        self._text = ""
        self._ids: list[int] = []
        self._ends: list[int] = []
        self._curve: list[tuple[float, int]] = []
        self._statistics = Statistics()
        self._finished: Finished | None = None

    def read(self) -> LaneRun:
        """The lane as it is now; the very same object while nothing came."""
        events = self._reply.wait(self._read, timeout=0)
        self._read += len(events)
        for event in events:
            self._take(event)
        if events:
            self.run = self._now()
        return self.run

    def _take(self, event: Event) -> None:
        match event:
            case Piece():
                self._add(event)
            case Finished():
                self._finished, self._statistics = event, event.statistics

    def _add(self, piece: Piece) -> None:
        before = len(self._text)
        self._text += piece.text
        self._ids += piece.token_ids
        # Without ends nobody knows which token brought which letters: the last one is given them all.
        ends = piece.ends or (0,) * (len(piece.token_ids) - 1) + (len(piece.text),)
        self._ends += [before + end for end in ends[: len(piece.token_ids)]]
        self._statistics = piece.statistics
        if piece.token_ids:
            self._curve.append((piece.statistics.seconds, len(self._ids)))

    def _now(self) -> LaneRun:
        ended = self._finished
        return LaneRun(
            decoding=self.run.decoding,
            decoder=ended.decoder if ended else self.run.decoder,
            statistics=self._statistics,
            text=self._text,
            token_ids=tuple(self._ids),
            ends=tuple(self._ends),
            curve=tuple(self._curve),
            reason=ended.reason if ended else None,
        )


def read_lane(decoding: Decoding, reply: Reply) -> LaneRun:
    """A lane that has ended, or as far as it has come."""
    return LaneReader(decoding, reply).read()
