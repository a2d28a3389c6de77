"""A model's thought before it answers: <think>…</think> at the start of a reply, and how long it took.

The engine writes the thoughts of all models between these tags. Older versions stored a reply without the opening
tag if the prompt had ended with it; in such a reply, an end tag alone on its line ends the thought. A tag that a
reply merely mentions does not count."""

import re
from dataclasses import dataclass, field, replace

from app.values.chat import MessageContent
from app.values.chat_format import CLOSING, OPENING, beginning_at_end
from app.values.messages import Message, Piece

# Without an opening tag an end tag counts only alone on its line, because the text may mention such tags.
_LONE_CLOSING = re.compile(rf"^[ \t]*{CLOSING}[ \t]*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class SplitReply:
    """A reply's thought and its answer. `is_thinking` is true while a thought is not closed.

    `closings` is the number of closing tags up to the end of the thought."""

    thought: str = ""
    answer: str = ""
    is_thinking: bool = False
    closings: int = field(default=1, compare=False)

    @property
    def has_thought(self) -> bool:
        """Whether there is a thought to show."""
        return self.is_thinking or bool(self.thought)


class ThoughtFold:
    """Separates the thought of a growing reply from its answer."""

    def __init__(self) -> None:
        self._held = ""
        self._read = 0
        self.blocks = 0
        self.is_thinking = self._is_answering = self._is_fresh = False

    @property
    def end(self) -> int:
        """The position in the reply at which the thought ends, as far as it is known; 0 before any thought."""
        return self._read if self.blocks else 0

    def push(self, text: str) -> tuple[str, str]:
        """Return what this text adds to the thought and to the answer. Holds back the beginning of a tag."""
        if self._is_answering:
            return "", text
        self._held += text
        self._read += len(text)
        thought = ""
        while self._opens_thought():
            inside, tag, after = self._held.partition(CLOSING)
            if not tag:
                end = len(inside) - beginning_at_end(inside, (CLOSING,))
                kept = len(inside[:end].rstrip("\n"))
                self._held = inside[kept:]
                return thought + self._joined(inside[:kept]), ""
            thought += self._joined(inside.rstrip("\n"))
            self._held, self.is_thinking = after, False
        head = self._held.lstrip()
        if OPENING.startswith(head):  # the tag itself is being written, or only blanks
            return thought, ""
        return thought, self._answer()

    def flush(self) -> tuple[str, str]:
        """Return the rest of the thought and of the answer at the end of the reply."""
        if self.is_thinking:
            return self._joined(self._held.rstrip("\n")), ""
        return "", "" if self._is_answering else self._answer()

    def _opens_thought(self) -> bool:
        """Remove the tag that opens a thought, and return whether the text after it is inside a thought."""
        head = self._held.lstrip()
        if not self.is_thinking and head.startswith(OPENING):
            self._held, self.is_thinking = head[len(OPENING) :], True
            self._is_fresh = True
            self.blocks += 1
        return self.is_thinking

    def _joined(self, text: str) -> str:
        """Return a part of the thought, after an empty line if it begins a further thought."""
        if self._is_fresh:
            text = text.lstrip("\n")
        if not text:
            return ""
        before = "\n\n" if self._is_fresh and self.blocks > 1 else ""
        self._is_fresh = False
        return before + text

    def _answer(self) -> str:
        self._is_answering = True
        self._read -= len(self._held)
        return self._held.lstrip("\n") if self.blocks else self._held


def split_thought(text: str) -> SplitReply:
    fold = ThoughtFold()
    thought, answer = fold.push(text)
    # `in` is quicker than the pattern, and most replies have no end tag. A growing reply is split again and again.
    if not fold.blocks and CLOSING in answer and (end := _LONE_CLOSING.search(answer)):
        thought = answer[: end.start()].strip("\n")
        return SplitReply(thought, answer[end.end() :].lstrip("\n"), closings=thought.count(CLOSING) + 1)
    return SplitReply(thought, answer, fold.is_thinking, fold.blocks)


def without_thoughts(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """Removes the thoughts from the assistant's messages. A message without an answer stays as it is.

    A reply that calls tools loses only the thought after its last call."""
    return tuple(map(_without_thought, messages))


def _without_thought(message: Message) -> Message:
    if message.role != "assistant":
        return message
    end = message.called[-1].end if message.called else 0
    kept, text = message.content[:end], message.content[end:]
    return replace(message, content=kept + (split_thought(text).answer or text))


class ThoughtClock:
    """Records when each </think> was written, in seconds of the reply, because only the whole text shows which tag
    ends the thought."""

    def __init__(self, before: MessageContent) -> None:
        self._ends = [before.thought] * before.text.count(CLOSING)
        self._tail = before.text[1 - len(CLOSING) :]
        self._before = self._now = before.thought if split_thought(before.text).is_thinking else 0.0

    def take(self, piece: Piece) -> None:
        """Records the time of each end tag that this piece completes."""
        newest = self._tail + piece.text
        numbers = piece.statistics
        self._now = self._before + numbers.time_to_first_token + numbers.seconds
        self._ends += [self._now] * newest.count(CLOSING)
        self._tail = newest[1 - len(CLOSING) :]

    def seconds(self, text: str) -> float:
        """Returns the seconds that the thought took, or has taken so far; 0 if the text has none.

        `text` is the whole text of the reply so far."""
        split = split_thought(text)
        if split.is_thinking or not split.thought:
            return self._now if split.is_thinking else 0.0
        ends = self._ends[split.closings - 1 :]
        return ends[0] if ends else 0.0
