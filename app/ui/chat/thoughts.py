"""What a model thinks before it answers: <think>…</think> at the head of a reply.

Some chat templates open the block themselves; the reply then has the end alone, on a line of its own.

    "<think>\\nhm\\n</think>\\n\\nYes."  ->  thought "hm", answer "Yes."
"""

import re
from dataclasses import dataclass

OPENING = "<think>"
_CLOSING = re.compile(r"</think>")
# Without an opening, only what nobody would write about: the tag alone on its line.
_LONE_CLOSING = re.compile(r"^[ \t]*</think>[ \t]*$", re.MULTILINE)


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


def split_thought(text: str, is_opened: bool = False) -> Spoken:
    """A reply's thought and its answer; `is_opened` where the chat template wrote the opening itself."""
    head = text.lstrip()
    if head.startswith(OPENING):
        return _split(head[len(OPENING) :], _CLOSING)
    if head and OPENING.startswith(head) and not is_opened:
        return Spoken()  # the tag itself is being written
    if is_opened:
        return _split(text, _CLOSING)
    return _split(text, _LONE_CLOSING) if _LONE_CLOSING.search(text) else Spoken(answer=text)


def _split(text: str, closing: re.Pattern[str]) -> Spoken:
    end = closing.search(text)
    if end is None:
        return Spoken(thought=text.lstrip("\n"), is_thinking=True)
    return Spoken(text[: end.start()].strip("\n"), text[end.end() :].lstrip("\n"))


def thought_summary(seconds: float, is_thinking: bool) -> str:
    """What stands over a folded thought: "Thought for 3.2 s"."""
    if is_thinking:
        return "Thinking…"
    if seconds <= 0:
        return "Thought"
    minutes, rest = divmod(round(seconds), 60)
    return f"Thought for {minutes} min {rest} s" if minutes else f"Thought for {seconds:.1f} s"


def thought_html(html: str, seconds: float = 0.0, is_thinking: bool = False) -> str:
    """A rendered thought, folded unless it is being written."""
    state = " open" if is_thinking else ""
    summary = thought_summary(seconds, is_thinking)
    return f'<details class="thought"{state}><summary>{summary}</summary><div>{html}</div></details>'
