"""Saves a reply to the database twice a second while it is generated, and once more when it ends.

It reads the reply's event log as a page does, so disk writes never delay decoding. A killed app loses at most
the last second of a reply. A write that fails is retried half a second later; only a failure of the last one is
reported.
"""

import logging
import threading
from collections.abc import Callable, Iterable
from time import monotonic

from app import __version__
from app.conversation.reply import Reply
from app.conversation.thinking import ThoughtClock
from app.errors import AppError
from app.values.chat import MessageContent, Provenance, TokenMark, WritingState
from app.values.logits import Grammar
from app.values.messages import Event, Failed, Finished, Options, Piece

log = logging.getLogger(__name__)

SECONDS = 0.5
"""Between two writes. A killed program may lose one second; the other half of it is for a busy disk."""
Write = Callable[[MessageContent], None]
Done = Callable[[str], None]
"""Called once when recording has ended, with the reason why the whole reply could not be stored, or ""."""


class ReplyRecorder:
    """Stores one reply, on its own thread."""

    def __init__(self, reply: Reply, draft: "ReplyDraft", write: Write, done: Done) -> None:
        self._reply = reply
        self._draft = draft
        self._write = write
        self._done = done
        self._thread = threading.Thread(target=self._record, name="recorder", daemon=True)
        self._thread.start()

    def join(self, timeout: float) -> None:
        """Waits until the reply is stored."""
        self._thread.join(timeout)

    def _record(self) -> None:
        seen, due, problem, is_saved = 0, monotonic() + SECONDS, "", True
        try:
            while not self._draft.is_done:
                # New text is saved in time even if nothing follows it: a slow model may think for seconds.
                events = self._reply.wait(seen, timeout=SECONDS if is_saved else max(0.0, due - monotonic()))
                seen += len(events)
                self._draft.take(events)
                is_saved = is_saved and not events
                if self._draft.is_done or (not is_saved and monotonic() >= due):
                    due = monotonic() + SECONDS  # from before the write, which may take long
                    problem = self._save(problem)
                    is_saved = not problem
        finally:
            self._done(problem)

    def _save(self, before: str) -> str:
        """Stores the draft. Returns what went wrong, or ""; the same problem as `before` is not logged again."""
        try:
            self._write(self._draft.content())
        except AppError as error:
            if str(error) != before:
                log.exception("a reply could not be stored")
            return str(error)
        return ""


class ReplyDraft:
    """Collects a reply's events as a MessageContent. A continued reply starts with what was written before."""

    def __init__(
        self, options: Options, before: MessageContent | None = None, grammar: Grammar | None = None
    ) -> None:
        self._options = options
        self._grammar = grammar
        self._before = before or MessageContent()
        self._texts = [self._before.text]
        self._length = len(self._before.text)
        self._marks = list(self._before.marks)
        self._step = self._marks[-1].step + 1 if self._marks else 0
        self._state: WritingState = "writing"
        self._note = ""
        self._provenance = self._before.provenance  # until the new reply has its own
        self._clock = ThoughtClock(self._before)

    @property
    def is_done(self) -> bool:
        """Whether the reply has ended."""
        return self._state != "writing"

    def take(self, events: Iterable[Event]) -> None:
        """Adds these events."""
        for event in events:
            match event:
                case Piece():
                    self._add(event)
                case Finished(reason, statistics, model, decoder):
                    self._state = "stopped" if reason == "stopped" else "done"
                    self._provenance = Provenance(
                        model, self._options, decoder, reason, statistics, __version__, self._grammar
                    )
                case Failed(sentence):
                    # What was good before the continuation stays good.
                    self._state = "stopped" if self._before.text else "failed"
                    self._note = sentence

    def content(self) -> MessageContent:
        """The reply so far."""
        self._texts = ["".join(self._texts)]
        return MessageContent(
            self._texts[0],
            self._state,
            self._note,
            tuple(self._marks),
            self._provenance,
            self._clock.seconds(self._texts[0]),
            self._before.sources,
        )

    def _add(self, piece: Piece) -> None:
        self._marks += (
            TokenMark(self._length + end, origin, self._step)
            for end, origin in zip(piece.ends, piece.origins, strict=False)
        )
        if not piece.token_ids and self._marks:  # text that was held back belongs to the last token
            last = self._marks[-1]
            self._marks[-1] = TokenMark(self._length + len(piece.text), last.origin, last.step)
        self._step += 1
        self._texts.append(piece.text)
        self._length += len(piece.text)
        self._clock.take(piece)
