"""Turns a reply's token ids into text while they arrive, and puts thoughts between <think> tags.

Some tokenizers decode a token differently after another token. So a short run of tokens is decoded with and without
the new token, and the difference is the new text."""

import re
from collections.abc import Callable, Sequence

from app.values.chat_format import CLOSING, OPENING, ReplyFormat, first_marker

_HALF = "\N{REPLACEMENT CHARACTER}"
_LONGEST_CHARACTER = 8
"""Number of tokens after which an incomplete character is returned, because no character has as many tokens."""

PLAIN = ReplyFormat()
"""The format of a raw text, which is not rewritten."""
_TOKEN = re.compile(r"<\|?[^<>]+>")
BEGUN = f"{OPENING}\n"
"""The beginning of a rewritten reply if the prompt has opened the thought."""
Decode = Callable[[list[int]], str]
"""(token ids) -> their text, without special tokens."""


class Detokenizer:
    """Turns one reply's token ids into text, piece by piece. The pieces joined are the decoded reply."""

    def __init__(self, decode: Decode, before: Sequence[int] = ()) -> None:
        """Continue a text with the ids `before`, whose text is not returned again."""
        self._decode = decode
        self._ids = list(before[-_LONGEST_CHARACTER:])
        self._given = len(self._ids)  # the number of ids whose text was returned
        self._context = 0  # ids from here on are decoded again, for tokenizers that look back

    def push(self, token_id: int) -> str:
        """Return the text that this token completes; "" while a character is incomplete."""
        self._ids.append(token_id)
        text = self._pending()
        if text.endswith(_HALF) and len(self._ids) - self._given < _LONGEST_CHARACTER:
            return ""
        return self._give(text)

    def flush(self) -> str:
        """Return the rest of the text at the end of the reply, with incomplete characters."""
        return self._give(self._pending())

    def _pending(self) -> str:
        before = self._decode(self._ids[self._context : self._given])
        return self._decode(self._ids[self._context :])[len(before) :]

    def _give(self, text: str) -> str:
        if text:
            self._context, self._given = self._given, len(self._ids)
        return text


class ThoughtText:
    """Writes one reply's thought between <think> tags, whatever the model's own markers are, piece by piece.

    <|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>Yes.
    <think>Hm.</think>Yes.
    """

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
        # What a call contains stays as it is. Mistral's calls have no end tag, and end the reply.
        if calls.end_tag or calls.opening.startswith("["):
            begins = (calls.opening, *(one + calls.opening.removeprefix("to=") for one in form.asides))
            self._outside |= dict.fromkeys(begins, calls.opening)
            ends = {calls.end_tag: calls.end_tag} if calls.end_tag else {}
            self._after |= dict.fromkeys(begins, ends)
        self._markers = self._inside if is_opened else self._outside
        self._begun = BEGUN if is_opened else ""
        # an answer may begin although the prompt has opened a thought
        self._dropped = form.answer_header if is_opened else form.answer_opening
        self._held = self._opened = ""
        self._has_answer = False
        # models that think may begin an answer with the line ends that usually follow a thought
        self._is_fresh = bool(closing) and not is_opened

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

        Drops blank text while a tag is held back. If the model thinks, also drops line ends at the beginning of the
        reply."""
        if self._markers is self._aside:
            return ""
        if self._is_fresh:
            text = text.lstrip("\n")
            self._is_fresh = not text
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
        self._is_fresh = self._is_fresh and not shown
        return shown

    def flush(self) -> str:
        """Return the text that is held back at the end of the reply; "" if it is an incomplete marker that begins
        with a control token."""
        held, self._held = self._held, ""
        return "" if _TOKEN.match(held) else self._written(held)


def begun_text(form: ReplyFormat, written: str, asked: str, hidden: Callable[[str], str]) -> str:
    """Return the text of a reply to continue, with the model's own markers instead of <think> tags.

    `asked` is the prompt. `hidden` replaces control tokens that the text spells, so that they are not read as
    control tokens."""
    is_opened, closing = form.is_opened_by(asked), form.thought_closing
    if not form.thought_opening or not written.startswith(OPENING):
        has_lone_end = CLOSING in written  # in old replies, and if the prompt has opened the thought
        begin = form.thought_end if is_opened and written and not has_lone_end else form.answer_opening
        if written and closing and asked.endswith(closing):
            # what earlier messages have between the closing marker and the answer
            begin = form.thought_end.partition(closing)[2]
        return begin + hidden(written)
    written = written.removeprefix(BEGUN if is_opened and written.startswith(BEGUN) else OPENING)
    thought, is_closed, answer = written.partition(CLOSING)
    after = form.thought_end.strip() if is_closed else ""
    return ("" if is_opened else form.thought_opening) + hidden(thought) + after + hidden(answer)
