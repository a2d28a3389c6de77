"""What a person typed, as it was typed: every space and line break stays. Only fenced code is more than text."""

from collections.abc import Iterator
from functools import cache, lru_cache
from html import escape

from markdown_it import MarkdownIt
from markdown_it.token import Token

from app.ui.chat.code import code_html
from app.ui.chat.plain import plain_html, rendered_part


@lru_cache(maxsize=256)
def typed_html(text: str) -> str:
    """A message as HTML."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    part = rendered_part(text)
    lines = part.split("\n")
    fences = [token for token in _parser().parse("\n".join(lines)) if token.type == "fence"]
    return "".join(_parts(lines, fences)) + plain_html(text[len(part) :])


def _parts(lines: list[str], fences: list[Token]) -> Iterator[str]:
    start = 0
    for fence in fences:
        begin, end = fence.map or [start, start]
        yield _text(lines[start:begin])
        yield code_html(fence.content, fence.info)
        start = end
    yield _text(lines[start:])


def _text(lines: list[str]) -> str:
    text = "\n".join(lines).strip("\n")
    return f'<p class="typed">{escape(text)}</p>' if text.strip() else ""


@cache
def _parser() -> MarkdownIt:
    return MarkdownIt("zero").enable("fence")
