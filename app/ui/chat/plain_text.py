"""Text that is shown as it was written: a user's messages, and the end of very long texts, because rendering
Markdown takes a second or two for every 100,000 characters."""

from functools import cache, lru_cache
from html import escape

from markdown_it import MarkdownIt

from app.ui.chat.code import code_html
from app.ui.chat.fences import add_fences

RENDERED = 100_000
"""Maximum number of characters of a text that are rendered as Markdown."""
PLAIN_BLOCK = 20_000
"""Maximum characters of a block of plain text; the browser draws a block only when it comes into view."""
TOO_LONG = '<p class="ending">This text is very long: from here on it is shown as it was written.</p>'


def rendered_part(text: str) -> str:
    """Return the part of a text that is rendered as Markdown: all, or its beginning if it is too long."""
    if len(text) <= RENDERED:
        return text
    for border in ("\n\n", "\n"):
        if (end := text.rfind(border, RENDERED // 2, RENDERED)) >= 0:
            return text[: end + len(border)]
    return text[:RENDERED]


def plain_html(text: str) -> str:
    """Return the end of a very long text as HTML: a note, then the end as it was written. Returns "" for ""."""
    plain = LivePlain()
    plain.update(text)
    return "".join(plain.blocks)


class LivePlain:
    """A growing plain text as HTML in blocks, of which only the last one changes."""

    def __init__(self) -> None:
        self._settled: list[str] = []
        self._start = 0
        self._tail = ""

    @property
    def blocks(self) -> tuple[str, ...]:
        """The note that the text is very long, and the text in blocks; () without text."""
        return (TOO_LONG, *self._settled, self._tail) if self._settled or self._tail else ()

    def update(self, text: str) -> None:
        """Add the part of `text` that is new. `text` must continue the former text."""
        while len(text) - self._start > PLAIN_BLOCK:
            end = self._start + PLAIN_BLOCK
            end = text.rfind("\n", self._start, end) + 1 or end
            self._settled.append(_block(text[self._start : end]))
            self._start = end
        self._tail = _block(text[self._start :])


def _block(text: str) -> str:
    return f'<div class="plain" dir="auto">{escape(text)}</div>' if text else ""


@lru_cache(maxsize=256)
def typed_html(text: str) -> str:
    """Return a user's text as HTML. Spaces and line breaks within the text stay; only fenced code is formatted."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    part = rendered_part(text)
    lines, html, start = part.split("\n"), "", 0
    for token in _parser().parse(part):
        if token.type == "fence":
            begin, end = token.map or [start, start]
            html += _text(lines[start:begin]) + code_html(token.content, token.info)
            start = end
    return html + _text(lines[start:]) + plain_html(text[len(part) :])


def _text(lines: list[str]) -> str:
    text = "\n".join(lines).strip("\n")
    return f'<p class="typed" dir="auto">{escape(text)}</p>' if text.strip() else ""


@cache
def _parser() -> MarkdownIt:
    parser = MarkdownIt("zero").enable("fence")
    add_fences(parser)
    return parser
