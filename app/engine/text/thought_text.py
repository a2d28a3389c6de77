"""Writes a reply's thought between <think> tags, whatever the model's own markers are.

    <|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>Yes.
    <think>Hm.</think>Yes.

So pages, stored chats and clients read one format.
"""

import re
from collections.abc import Callable

from app.values.chat_format import CLOSING, OPENING, ReplyFormat, first_marker

PLAIN = ReplyFormat()
"""The format of a raw text, which is not rewritten."""
_TOKEN = re.compile(r"<\|?[^<>]+>")
BEGUN = f"{OPENING}\n"
"""The beginning of a rewritten reply if the prompt has opened the thought."""


class ThoughtText:
    """Rewrites one reply, piece by piece."""

    def __init__(self, form: ReplyFormat, is_opened: bool = False) -> None:
        """Rewrite replies of this format. With `is_opened` the prompt has opened the thought."""
        opening, closing, calls = form.thought_opening, form.thought_closing, form.calls
        self._inside = {closing: CLOSING} if closing else {}
        self._outside = dict.fromkeys(form.marks, "")
        if opening:
            self._outside |= {opening: OPENING} if closing == CLOSING else {closing: "", opening: OPENING}
        self._aside = {closing: ""}
        self._outside |= dict.fromkeys(form.asides, "")
        self._after = {opening: self._inside, **dict.fromkeys(form.asides, self._aside)}
        if calls.end_tag:  # what a call contains stays as it is
            begins = (calls.opening, *(one + calls.opening.removeprefix("to=") for one in form.asides))
            self._outside |= dict.fromkeys(begins, calls.opening)
            self._after |= {begin: {calls.end_tag: calls.end_tag} for begin in begins}
        self._markers = self._inside if is_opened else self._outside
        self._begun = BEGUN if is_opened else ""
        # an answer may begin although the prompt has opened a thought
        self._dropped = form.answer_header if is_opened else form.answer_opening
        self._held = self._opened = ""
        self._has_answer = False

    def push(self, text: str) -> str:
        """Add text and return what can be rewritten so far; the beginning of a marker is held back."""
        self._held += text
        if self._dropped.startswith(self._held) and self._held != self._dropped:
            return ""
        if self._dropped and self._held.startswith(self._dropped):
            self._held, self._begun, self._markers = self._held[len(self._dropped) :], "", self._outside
        self._dropped = ""
        begun, self._begun = (self._begun, "") if text else ("", self._begun)
        parts = [begun]
        while (found := first_marker(self._held, self._markers))[1]:
            place, marker = found
            parts += (self._written(self._held[:place]), self._mark(marker))
            self._held = self._held[place + len(marker) :]
        parts.append(self._written(self._held[: found[0]]))
        self._held = self._held[found[0] :]
        return "".join(parts)

    def _written(self, text: str) -> str:
        """Return the text, preceded by the <think> tag that was held back, if any; "" for a message to a tool.

        While a tag is held back, blank text is dropped."""
        if self._markers is self._aside:
            return ""
        if not text.strip():
            return "" if self._opened else text
        opened, self._opened = self._opened, ""
        self._has_answer = self._has_answer or self._markers is self._outside
        return opened + text

    def _mark(self, marker: str) -> str:
        """Return what replaces a marker, and switch to the markers that may follow it."""
        shown, is_outside = self._markers[marker], self._markers is self._outside
        self._markers = self._after.get(marker, self._outside) if is_outside else self._outside
        if shown == OPENING != marker and self._has_answer:
            # held back until text follows, because an empty thought in the middle of an answer is not shown
            self._opened = OPENING
            return ""
        if self._opened:
            self._opened = ""
            return ""
        return shown

    def flush(self) -> str:
        """Return the text that is held back at the end of the reply; "" if it is an incomplete marker that begins
        with a control token."""
        held, self._held = self._held, ""
        return "" if _TOKEN.match(held) else self._written(held)


def begun_text(form: ReplyFormat, written: str, is_opened: bool, hidden: Callable[[str], str]) -> str:
    """Return the text of a reply to continue, with the model's own markers instead of <think> tags.

    `hidden` replaces control tokens that the text spells, so that they are not read as control tokens."""
    if not form.thought_opening or not written.startswith(OPENING):
        has_lone_end = CLOSING in written  # in old replies, and if the prompt has opened the thought
        begin = form.thought_end if is_opened and written and not has_lone_end else form.answer_opening
        return begin + hidden(written)
    written = written.removeprefix(BEGUN if is_opened and written.startswith(BEGUN) else OPENING)
    thought, closing, answer = written.partition(CLOSING)
    after = form.thought_end.strip() if closing else ""
    return ("" if is_opened else form.thought_opening) + hidden(thought) + after + hidden(answer)
