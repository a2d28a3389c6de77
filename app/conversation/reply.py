"""A reply as an append-only log of events, which any number of readers follow from any point.

The worker appends; the page, a second tab and the recorder read. A reader that leaves does not stop the reply. The
log keeps all events, but only the newest TRACED_STEPS steps keep their traces, which are much larger than texts."""

import threading
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from time import monotonic
from typing import Literal

from app.conversation.thought_parsing import ThoughtClock
from app.values.chat import MessageContent, TokenMark
from app.values.logits import TokenLogprobs
from app.values.messages import (
    Called,
    Event,
    Failed,
    Finished,
    Loading,
    Origin,
    Piece,
    Prefilling,
    Statistics,
)
from app.values.reply_statistics import NO_TRACE, TRACED_STEPS
from app.values.tools import CalledTool

Phase = Literal["waiting", "loading", "prefilling", "decoding", "calling", "finished", "failed"]


class Reply:
    """The event log of one reply. Thread-safe: one writer, many readers."""

    def __init__(self) -> None:
        self._events: list[Event] = []
        self._traced: deque[int] = deque()
        self._changed = threading.Condition()
        self._stop = threading.Event()

    def append(self, event: Event) -> None:
        """Adds an event and wakes every reader. Raises RuntimeError if the reply has ended, which is a bug."""
        with self._changed:
            if self._has_ended():
                raise RuntimeError(f"the reply has ended before this {type(event).__name__}")
            self._events.append(event)
            if isinstance(event, Piece) and event.trace != NO_TRACE:
                self._traced.append(len(self._events) - 1)
            if len(self._traced) > TRACED_STEPS:
                oldest = self._traced.popleft()
                piece = self._events[oldest]
                if isinstance(piece, Piece):
                    self._events[oldest] = replace(piece, trace=NO_TRACE)
            self._changed.notify_all()

    def stop(self) -> None:
        """Asks the decoder to end the reply after its current step. May be called at any time and repeatedly."""
        self._stop.set()

    @property
    def is_stopping(self) -> bool:
        return self._stop.is_set()

    @property
    def is_done(self) -> bool:
        with self._changed:
            return self._has_ended()

    def events(self, start: int = 0) -> Iterator[Event]:
        """Yields every event from number `start`, waits for new events, and ends after Finished or Failed."""
        ended = False
        while not ended:
            batch = self.wait(start, timeout=None)
            yield from batch
            start += len(batch)
            ended = any(isinstance(event, Finished | Failed) for event in batch) or not batch

    def wait(self, start: int, timeout: float | None) -> list[Event]:
        """Returns the events from number `start`. Waits at most `timeout` seconds for the first of them, or without
        a limit if `timeout` is None. Returns [] if there is none."""
        deadline = None if timeout is None else monotonic() + timeout
        with self._changed:
            while len(self._events) <= start and not self._has_ended():
                left = None if deadline is None else deadline - monotonic()
                if not self._changed.wait(left):
                    break
            return self._events[start:]

    def _has_ended(self) -> bool:
        return bool(self._events) and isinstance(self._events[-1], Finished | Failed)


@dataclass(frozen=True, slots=True)
class ReplyState:
    phase: Phase = "waiting"
    text: str = ""
    statistics: Statistics = field(default_factory=Statistics)
    progress: tuple[int, int] = (0, 0)
    note: str = ""
    finished: Finished | None = None
    calls: tuple[CalledTool, ...] = ()

    @property
    def is_done(self) -> bool:
        return self.phase in ("finished", "failed")


class ReplySoFar:
    """Collects a reply's events: the text, the tokens and the statistics so far. It is not thread-safe.

    A continued reply starts with the text and the marks of `before`. `marks` has an entry for each token, `curve`
    has (seconds, tokens) after each step, and `drafted` counts the tokens of the draft trees in all traces that
    the log still had. The text is joined only when it is asked for."""

    def __init__(self, before: MessageContent | None = None) -> None:
        before = before or MessageContent()
        self.phase: Phase = "waiting"
        self.progress = (0, 0)
        self.note = ""
        self.statistics = Statistics()
        self.finished: Finished | None = None
        self.token_ids: list[int] = []
        self.marks = list(before.marks)
        self.curve: list[tuple[float, int]] = []
        self.sources: Counter[Origin] = Counter()
        self.drafted = 0
        self.calls = before.calls
        self.logprobs: list[TokenLogprobs] = []
        self.prompt_logprobs: list[TokenLogprobs] = []
        self._texts = [before.text]
        self._length = len(before.text)
        self._step = before.marks[-1].step + 1 if before.marks else 0
        self._clock = ThoughtClock(before)

    def take(self, events: Iterable[Event]) -> None:
        for event in events:
            match event:
                case Loading(what, done, total):
                    self.phase, self.note, self.progress = "loading", what, (done, total)
                case Prefilling(done, total, logprobs):
                    self.phase, self.note, self.progress = "prefilling", "", (done, total)
                    self.prompt_logprobs += logprobs
                case Piece():
                    self.phase, self.note = "decoding", ""
                    self._add(event)
                case Called(calls):
                    self.phase, self.note, self.calls = "calling", "", calls
                case Finished():
                    self.phase, self.finished, self.statistics = "finished", event, event.statistics
                case Failed(sentence):
                    self.phase, self.note = "failed", sentence

    @property
    def is_done(self) -> bool:
        return self.phase in ("finished", "failed")

    @property
    def text(self) -> str:
        """The whole text, including that of `before`."""
        self._texts = ["".join(self._texts)]
        return self._texts[0]

    @property
    def thought(self) -> float:
        """Seconds that the thought took, or has taken so far; 0 if the reply has none."""
        return self._clock.seconds(self.text)

    @property
    def accepted(self) -> int:
        """The number of the reply's tokens that were accepted drafts."""
        return self.sources.total() - self.sources["model"]

    @property
    def rejected(self) -> int:
        """The number of drafted tokens that were not accepted."""
        return max(0, self.drafted - self.accepted)

    @property
    def state(self) -> ReplyState:
        """A snapshot of this reply for other threads."""
        return ReplyState(
            self.phase, self.text, self.statistics, self.progress, self.note, self.finished, self.calls
        )

    def _add(self, piece: Piece) -> None:
        count = len(piece.token_ids)
        # If the piece has no `ends`, its whole text belongs to the last token.
        ends = piece.ends or (0,) * (count - 1) + (len(piece.text),)
        self.marks += (
            TokenMark(self._length + end, origin, self._step)
            for end, origin in zip(ends, piece.origins, strict=False)
        )
        if not count and self.marks:  # the text of the last token was held back until now
            self.marks[-1] = replace(self.marks[-1], end=self._length + len(piece.text))
        self.token_ids += piece.token_ids
        if count:
            self.curve.append((piece.statistics.seconds, len(self.token_ids)))
        self.sources.update(piece.origins)
        self.drafted += max(0, len(piece.trace.tokens) - 1)
        self.logprobs += piece.logprobs
        self.statistics = piece.statistics
        self._step += 1
        self._texts.append(piece.text)
        self._length += len(piece.text)
        self._clock.take(piece)
