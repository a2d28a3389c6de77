"""Saves a reply to the database at most twice a second while it is written, and once more when it ends.

The recorder reads the reply's event log as a page does, so decoding does not wait for disk writes."""

import logging
import threading
from collections.abc import Callable
from dataclasses import replace
from itertools import takewhile
from time import monotonic

from app import __version__
from app.conversation.reply import Reply, ReplySoFar
from app.errors import AppError
from app.values.chat import MessageContent, Provenance, WritingState
from app.values.display_text import counted, seconds_in_words
from app.values.logits import Grammar
from app.values.messages import Options

log = logging.getLogger(__name__)

SECONDS = 0.5
"""Minimum seconds between two writes. A killed app loses at most a second if a write takes half a second."""
Write = Callable[[MessageContent], None]
Done = Callable[[str], None]
"""Called once when recording has ended, with the reason why the whole reply could not be stored; "" if it was."""


class ReplyRecorder:
    """Stores one reply, on a thread of its own."""

    def __init__(self, reply: Reply, draft: "ReplyDraft", write: Write, done: Done) -> None:
        self._reply = reply
        self._draft = draft
        self._write = write
        self._done = done
        self._thread = threading.Thread(target=self._record, name="recorder", daemon=True)
        self._thread.start()

    def join(self, timeout: float) -> None:
        self._thread.join(timeout)

    def _record(self) -> None:
        seen, due, problem, is_saved = 0, monotonic() + SECONDS, "", True
        try:
            while not self._draft.is_done:
                # New text is saved in time even if no event follows, because a step may take seconds.
                events = self._reply.wait(seen, timeout=SECONDS if is_saved else max(0.0, due - monotonic()))
                seen += len(events)
                self._draft.take(events)
                is_saved = is_saved and not events
                if self._draft.is_done or (not is_saved and monotonic() >= due):
                    due = monotonic() + SECONDS  # counted from before the write, which may take long
                    problem = self._save(problem)
                    is_saved = not problem
        finally:
            self._done(problem)

    def _save(self, before: str) -> str:
        """Stores the draft. Returns what went wrong, or "". A problem equal to `before` is not logged again."""
        try:
            self._write(self._draft.content())
        except AppError as error:
            if str(error) != before:
                log.exception("a reply could not be stored")
            return str(error)
        return ""


class ReplyDraft(ReplySoFar):
    """A reply as it is stored. A continued reply starts with the text written before.

    If `compared` is another reply, the note of the complete reply compares both."""

    def __init__(
        self,
        options: Options,
        before: MessageContent | None = None,
        grammar: Grammar | None = None,
        compared: MessageContent | None = None,
    ) -> None:
        super().__init__(before)
        self._options = options
        self._compared = compared
        self._grammar = grammar
        self._before = before or MessageContent()

    def content(self) -> MessageContent:
        """Returns the reply so far, with its state and, once it has finished, its own provenance."""
        finished, has_failed = self.finished, self.phase == "failed"
        state: WritingState = "writing"
        provenance = self._before.provenance  # kept unless the new reply finishes
        if has_failed:
            state = "stopped" if self._before.text else "failed"  # the text written before stays usable
        if finished:
            state = "stopped" if finished.reason == "stopped" else "done"
            provenance = Provenance(
                finished.model, self._options, finished.decoder, finished.reason, finished.statistics,
                __version__, self._grammar,
            )  # fmt: skip
        content = MessageContent(
            self.text,
            state,
            self.note if has_failed else "",
            tuple(self.marks),
            provenance,
            self.thought,
            self._before.sources,
            # A call that is still being written counts as text. It is read again when the reply is continued.
            calls=tuple(call for call in self.calls if call.state != "writing"),
        )
        if self._compared and state == "done":
            return replace(content, note=comparison_in_words(self._compared, content))
        return content


def comparison_in_words(*replies: MessageContent) -> str:
    """Return a note that compares the texts and the times of two replies, one of which was written without
    lookahead.

    The time of reading the prompt does not count, because lookahead does not change this time."""
    made = [reply.provenance for reply in replies if reply.provenance]
    fast, slow = (
        seconds_in_words(each.statistics.seconds)
        for each in sorted(made, key=lambda each: each.decoder == "plain")
    )
    times = f"{fast} with lookahead against {slow} without"
    if len({reply.text for reply in replies}) == 1:
        return f"Same text: {times}."
    words = zip(*(reply.text.split() for reply in replies), strict=False)
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], words))
    why = (
        "In float32 they must be the same unless the chat was changed in between."
        if made[0].model.dtype == "float32"
        else f"In {made[0].model.dtype} the size of a step may change how numbers are rounded."
    )
    return f"The texts differ after {counted(same, 'word')} ({times}). {why}"
