"""What a model thinks before it answers: <think>…</think> at the start of a reply, and how long that took.

Some chat templates open the block themselves; the reply then has only the end, on a line of its own. A tag that a
reply merely mentions ends nothing.

    "<think>\\nhm\\n</think>\\n\\nYes."  ->  thought "hm", answer "Yes."
    "`</think>` ends a thought."         ->  answer alone
"""

import re
from dataclasses import dataclass, replace

from app.values.chat import MessageContent
from app.values.messages import Message, Piece

OPENING, END = "<think>", "</think>"
_CLOSING = re.compile(END)
# Without an opening tag only an end tag alone on its line counts: others may be mentioned in the text.
_LONE_CLOSING = re.compile(rf"^[ \t]*{END}[ \t]*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class SplitReply:
    """A reply's two parts. `is_thinking` until the thought is closed."""

    thought: str = ""
    answer: str = ""
    is_thinking: bool = False

    @property
    def has_thought(self) -> bool:
        """Whether there is a thought to show."""
        return self.is_thinking or bool(self.thought)


def split_thought(text: str) -> SplitReply:
    """A reply's thought and its answer."""
    head = text.lstrip()
    if head and OPENING.startswith(head):
        return SplitReply()  # the tag itself is being written
    is_opened = head.startswith(OPENING)
    thought = head[len(OPENING) :] if is_opened else text
    # A reply that grows is looked at again and again, and most have no end of a thought: a plain search is quick.
    end = (_CLOSING if is_opened else _LONE_CLOSING).search(thought) if END in thought else None
    if end:
        return SplitReply(thought[: end.start()].strip("\n"), thought[end.end() :].lstrip("\n"))
    return (
        SplitReply(thought=thought.lstrip("\n"), is_thinking=True) if is_opened else SplitReply(answer=text)
    )


def without_thoughts(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """The messages, answers without their thoughts. An answer that is nothing but thought stays."""
    return tuple(
        replace(message, content=split_thought(message.content).answer or message.content)
        if message.role == "assistant"
        else message
        for message in messages
    )


class ThoughtClock:
    """Remembers when each </think> came, by the reply's clock. The whole text decides later which one counts."""

    def __init__(self, before: MessageContent) -> None:
        self._ends = [before.thought] * before.text.count(END)
        self._tail = before.text[1 - len(END) :]

    def take(self, piece: Piece) -> None:
        """Looks for the end tag in the newest text."""
        newest = self._tail + piece.text
        numbers = piece.statistics
        self._ends += [numbers.time_to_first_token + numbers.seconds] * newest.count(END)
        self._tail = newest[1 - len(END) :]

    def seconds(self, text: str) -> float:
        """Seconds that the thought of this text took; 0 if there is none, or it has not ended. `text` is all that
        was taken."""
        if not self._ends:
            return 0.0
        split = split_thought(text)
        if split.is_thinking or not split.thought:
            return 0.0
        ends = self._ends[split.thought.count(END) :]
        return ends[0] if ends else 0.0
