"""What a model thinks before it answers: <think>…</think> at the head of a reply, and how long that took.

Some chat templates open the block themselves; the reply then has the end alone, on a line of its own. A tag that a
reply merely mentions ends nothing.

    "<think>\\nhm\\n</think>\\n\\nYes."  ->  thought "hm", answer "Yes."
    "`</think>` ends a thought."         ->  answer alone
"""

import re
from dataclasses import dataclass

from app.chat_messages import MessageContent
from app.messages import Piece

OPENING, END = "<think>", "</think>"
_CLOSING = re.compile(END)
# Without an opening, only what nobody would write about: the tag alone on its line.
_LONE_CLOSING = re.compile(rf"^[ \t]*{END}[ \t]*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Spoken:
    """A reply's two parts. While `is_thinking` the thought is not closed yet."""

    thought: str = ""
    answer: str = ""
    is_thinking: bool = False

    @property
    def has_thought(self) -> bool:
        """Whether there is a thought to show."""
        return self.is_thinking or bool(self.thought)


def split_thought(text: str) -> Spoken:
    """A reply's thought and its answer."""
    head = text.lstrip()
    if head and OPENING.startswith(head):
        return Spoken()  # the tag itself is being written
    is_opened = head.startswith(OPENING)
    thought = head[len(OPENING) :] if is_opened else text
    # A reply that grows is looked at again and again, and most have no end of a thought: a plain search is quick.
    end = (_CLOSING if is_opened else _LONE_CLOSING).search(thought) if END in thought else None
    if end:
        return Spoken(thought[: end.start()].strip("\n"), thought[end.end() :].lstrip("\n"))
    return Spoken(thought=thought.lstrip("\n"), is_thinking=True) if is_opened else Spoken(answer=text)


class ThoughtClock:
    """Notes when each end of a thought came, by the reply's own clock: which one counts its text says later."""

    def __init__(self, before: MessageContent) -> None:
        self._ends = [before.thought] * before.text.count(END)
        self._tail = before.text[1 - len(END) :]

    def take(self, piece: Piece) -> None:
        """Look at the newest text alone."""
        newest = self._tail + piece.text
        numbers = piece.statistics
        self._ends += [numbers.time_to_first_token + numbers.seconds] * newest.count(END)
        self._tail = newest[1 - len(END) :]

    def seconds(self, text: str) -> float:
        """How long the thought of this text took, which is all that was taken; 0 without one that ended."""
        if not self._ends:
            return 0.0
        spoken = split_thought(text)
        if spoken.is_thinking or not spoken.thought:
            return 0.0
        ends = self._ends[spoken.thought.count(END) :]
        return ends[0] if ends else 0.0
