"""A model's thought before it answers: <think>…</think> at the start of a reply, and how long it took.

Some chat templates write the opening tag themselves; the reply then has only the end tag, on a line of its own. A
tag that a reply merely mentions does not count.

    "<think>\\nhm\\n</think>\\n\\nYes."  ->  thought "hm", answer "Yes."
    "`</think>` ends a thought."         ->  answer alone
"""

import re
from dataclasses import dataclass, replace

from app.values.chat import MessageContent
from app.values.messages import Message, Piece

OPENING, END = "<think>", "</think>"
_CLOSING = re.compile(END)
# Without an opening tag an end tag counts only alone on its line, because the text may mention such tags.
_LONE_CLOSING = re.compile(rf"^[ \t]*{END}[ \t]*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class SplitReply:
    """A reply's thought and its answer. `is_thinking` is true until the thought is closed."""

    thought: str = ""
    answer: str = ""
    is_thinking: bool = False

    @property
    def has_thought(self) -> bool:
        """Whether there is a thought to show."""
        return self.is_thinking or bool(self.thought)


def split_thought(text: str) -> SplitReply:
    """Splits a reply into its thought and its answer."""
    head = text.lstrip()
    if head and OPENING.startswith(head):
        return SplitReply()  # the tag itself is being written
    is_opened = head.startswith(OPENING)
    thought = head[len(OPENING) :] if is_opened else text
    # A growing reply is split again and again, and most have no end tag: `in` is quicker than the pattern.
    end = (_CLOSING if is_opened else _LONE_CLOSING).search(thought) if END in thought else None
    if end:
        return SplitReply(thought[: end.start()].strip("\n"), thought[end.end() :].lstrip("\n"))
    return (
        SplitReply(thought=thought.lstrip("\n"), is_thinking=True) if is_opened else SplitReply(answer=text)
    )


def without_thoughts(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """Removes the thoughts from the assistant's messages. A message that is nothing but thought stays as it is."""
    return tuple(
        replace(message, content=split_thought(message.content).answer or message.content)
        if message.role == "assistant"
        else message
        for message in messages
    )


class ThoughtClock:
    """Records when each </think> was written, by the reply's clock. Only the whole text shows which tag counts."""

    def __init__(self, before: MessageContent) -> None:
        self._ends = [before.thought] * before.text.count(END)
        self._tail = before.text[1 - len(END) :]

    def take(self, piece: Piece) -> None:
        """Records the time of each end tag that this piece completes."""
        newest = self._tail + piece.text
        numbers = piece.statistics
        self._ends += [numbers.time_to_first_token + numbers.seconds] * newest.count(END)
        self._tail = newest[1 - len(END) :]

    def seconds(self, text: str) -> float:
        """Returns the seconds that the thought took; 0 if the text has none, or if it has not ended.

        `text` is the whole text of the reply so far."""
        if not self._ends:
            return 0.0
        split = split_thought(text)
        if split.is_thinking or not split.thought:
            return 0.0
        ends = self._ends[split.thought.count(END) :]
        return ends[0] if ends else 0.0
