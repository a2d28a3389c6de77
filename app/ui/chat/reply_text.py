"""A reply's text as HTML, whole or while it arrives: its thought, which can be folded, then its answer."""

from collections.abc import Callable
from time import perf_counter

from app.conversation.thinking import split_thought
from app.ui.chat.live_markdown import LiveMarkdown
from app.ui.chat.markdown import render

THOUGHT = '<details class="thought"'
"""How the HTML of a reply with a thought begins."""


def reply_html(text: str, seconds: float = 0.0) -> str:
    """Return a whole reply; `seconds` is how long its thought took."""
    spoken = split_thought(text)
    thought = thought_html(render(spoken.thought), seconds) if spoken.has_thought else ""
    return thought + render(spoken.answer)


def thought_html(html: str, seconds: float = 0.0, is_thinking: bool = False) -> str:
    """Return a rendered thought, folded unless it is being written."""
    state = " open" if is_thinking else ""
    summary = thought_summary(seconds, is_thinking)
    return f"{THOUGHT}{state}><summary>{summary}</summary><div>{html}</div></details>"


def thought_summary(seconds: float, is_thinking: bool) -> str:
    """Return the title of a thought: "Thought for 3.2 s"."""
    if is_thinking:
        return "Thinking…"
    if seconds <= 0:
        return "Thought"
    minutes, rest = divmod(round(seconds), 60)
    return f"Thought for {minutes} min {rest} s" if minutes else f"Thought for {seconds:.1f} s"


class LiveReplyText:
    """A reply's HTML as far as its text has come. When it is done, the HTML is that of `reply_html`."""

    def __init__(self, clock: Callable[[], float] = perf_counter) -> None:
        self._thought, self._answer = LiveMarkdown(clock), LiveMarkdown(clock)
        self._thought_block: tuple[str, ...] = ()

    def update(self, text: str, seconds: float = 0.0, is_done: bool = False) -> None:
        """Render the text that there is now, which includes the former text; `seconds` as in `reply_html`."""
        spoken = split_thought(text)
        self._thought_block = ()
        if spoken.has_thought:
            is_thinking = spoken.is_thinking and not is_done
            self._thought.update(spoken.thought, is_done=not is_thinking)
            self._thought_block = (thought_html(self._thought.html, seconds, is_thinking),)
        self._answer.update(spoken.answer, is_done)

    @property
    def is_slow(self) -> bool:
        """Whether the next update may take more than some milliseconds."""
        return self._thought.is_slow or self._answer.is_slow

    @property
    def blocks(self) -> tuple[str, ...]:
        """The HTML in blocks. An update changes only the last ones and appends others."""
        return (*self._thought_block, *self._answer.blocks)

    @property
    def html(self) -> str:
        """The whole HTML."""
        return "".join(self.blocks)
