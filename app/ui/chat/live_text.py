"""A reply as HTML, whole or while it arrives: its thought folded, then its answer."""

from app.conversation.thinking import split_thought
from app.ui.chat.live_markdown import LiveMarkdown
from app.ui.chat.markdown import render
from app.ui.chat.thoughts import thought_html


def reply_html(text: str, seconds: float = 0.0) -> str:
    """A whole reply; `seconds` is how long its thought took."""
    spoken = split_thought(text)
    thought = thought_html(render(spoken.thought), seconds) if spoken.has_thought else ""
    return thought + render(spoken.answer)


class LiveText:
    """A reply's HTML as far as its text has come. When it is done, the HTML is that of `reply_html`."""

    def __init__(self) -> None:
        self._thought, self._answer = LiveMarkdown(), LiveMarkdown()
        self._fold: tuple[str, ...] = ()

    def update(self, text: str, seconds: float = 0.0, is_done: bool = False) -> None:
        """Take the text that there is now, the former text included; `seconds` is how long the thought took."""
        spoken = split_thought(text)
        self._fold = ()
        if spoken.has_thought:
            is_thinking = spoken.is_thinking and not is_done
            self._thought.update(spoken.thought, is_done=not is_thinking)
            self._fold = (thought_html(self._thought.html, seconds, is_thinking),)
        self._answer.update(spoken.answer, is_done)

    @property
    def is_slow(self) -> bool:
        """Whether the next update may take more than some milliseconds."""
        return self._thought.is_slow or self._answer.is_slow

    @property
    def blocks(self) -> tuple[str, ...]:
        """The HTML in parts; an update changes only the last ones and adds others."""
        return (*self._fold, *self._answer.blocks)

    @property
    def html(self) -> str:
        """The HTML as a whole."""
        return "".join(self.blocks)
