"""Texts that are too long to be rendered: their beginning is, and the rest is shown as it was written.

Markdown takes a second or two for every 100,000 characters, and no answer is that long but one that went wrong, or
a file that was pasted. Where the rendered part ends is told by that part alone, so a text that grows keeps it:

    [# A … the last blank line in time] [This text is very long: …] [plain] [plain] [pla
"""

from html import escape

RENDERED = 100_000
"""Characters of a text that are rendered at most."""
PIECE = 20_000
"""Characters of a plain text's part: the page draws parts that are out of sight when they come into sight."""
TOLD = '<p class="ending">This text is very long: from here on it is shown as it was written.</p>'


def rendered_part(text: str) -> str:
    """The beginning of a text that is rendered: all of most texts, else up to a blank line or a line's end."""
    if len(text) <= RENDERED:
        return text
    for border in ("\n\n", "\n"):
        if (end := text.rfind(border, RENDERED // 2, RENDERED)) >= 0:
            return text[: end + len(border)]
    return text[:RENDERED]


def plain_html(text: str) -> str:
    """The rest of a text."""
    plain = LivePlain()
    plain.update(text)
    return "".join(plain.blocks)


class LivePlain:
    """A plain text's HTML as far as it has come, in parts of which only the last one changes."""

    def __init__(self) -> None:
        self._settled: list[str] = []
        self._start = 0
        self._tail = ""

    @property
    def blocks(self) -> tuple[str, ...]:
        """The sentence that says why, and the parts; nothing for no text."""
        return (TOLD, *self._settled, self._tail) if self._settled or self._tail else ()

    def update(self, text: str) -> None:
        """Take the text that there is now, which continues the former one."""
        while len(text) - self._start > PIECE:
            end = self._start + PIECE
            end = text.rfind("\n", self._start, end) + 1 or end
            self._settled.append(_part(text[self._start : end]))
            self._start = end
        self._tail = _part(text[self._start :])


def _part(text: str) -> str:
    return f'<div class="plain">{escape(text)}</div>' if text else ""
