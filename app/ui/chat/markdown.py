"""Markdown as HTML that is safe to show, whoever wrote it.

CommonMark with tables and strikethrough. Tags show as they are written, pictures as their words (nothing is ever
fetched), links lead to http, https and mailto alone. Definitions like "[1]: there" are text, since replies list
their sources so; with that every block of the text means the same whatever comes before it, and a text can be
rendered in parts:

    render("# A\\n\\nb\\n") == render("# A\\n") + render("\\nb\\n")

Line breaks and the indentation behind them stay: small models write code without fences.
"""

import re
from collections.abc import Sequence
from functools import cache, lru_cache
from html import escape
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token

from app.ui.chat.code import code_html
from app.ui.chat.formulas import add_formulas, formula_html

KEPT_TEXTS, LONGEST_KEPT = 512, 50_000
"""How many rendered texts are kept, and of how many characters at most."""
DEEPEST = 60
"""Lists within quotes within lists: from here on they are not looked into."""

_SAFE_LINK = re.compile(r"(?:https?://|mailto:)[^\s<>\"]+", re.IGNORECASE)


class SafeMarkdown(MarkdownIt):
    """A parser that knows which links are safe; the others it leaves as text."""

    def validateLink(self, url: str) -> bool:  # noqa: N802
        return _SAFE_LINK.fullmatch(url) is not None


def render(text: str) -> str:
    """A text in Markdown as HTML."""
    return _kept(text) if len(text) <= LONGEST_KEPT else str(parser().render(text))


@lru_cache(maxsize=KEPT_TEXTS)
def _kept(text: str) -> str:
    return str(parser().render(text))


@cache
def parser() -> MarkdownIt:
    """The parser with its renderer; it keeps nothing between texts."""
    markdown = SafeMarkdown("commonmark", {"html": False, "xhtmlOut": False, "maxNesting": DEEPEST})
    markdown.enable(["table", "strikethrough"]).disable(["html_block", "html_inline", "reference"])
    markdown.inline.ruler.at("newline", _newline)
    add_formulas(markdown)
    for name, rule in RULES.items():
        markdown.add_render_rule(name, rule)
    return markdown


def _newline(state: StateInline, silent: bool) -> bool:
    """A line break keeps the spaces behind it; those before it say whether it is a hard one."""
    if state.src[state.pos] != "\n":
        return False
    if not silent:
        before = state.pending
        state.pending = before.rstrip(" ")
        is_hard = len(before) - len(state.pending) >= 2
        state.push("hardbreak" if is_hard else "softbreak", "br", 0)
    state.pos += 1
    return True


def _fence(_: RendererHTML, tokens: Sequence[Token], index: int, *__: Any) -> str:
    return code_html(tokens[index].content, tokens[index].info)


def _formula(_: RendererHTML, tokens: Sequence[Token], index: int, *__: Any) -> str:
    token = tokens[index]
    html = formula_html(token.meta["latex"], token.content, token.meta["is_display"])
    return f"<p>{html}</p>\n" if token.block else html


def _link(_: RendererHTML, tokens: Sequence[Token], index: int, *__: Any) -> str:
    address = escape(str(tokens[index].attrs["href"]))
    return f'<a href="{address}" target="_blank" rel="noopener noreferrer nofollow">'


def _picture(self: RendererHTML, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
    token = tokens[index]
    words = self.renderInlineAsText(token.children, options, env) or "picture"
    return f'<span class="picture" title="{escape(str(token.attrs["src"]))}">{escape(words)}</span>'


def _cell(_: RendererHTML, tokens: Sequence[Token], index: int, *__: Any) -> str:
    token = tokens[index]
    side = str(token.attrs.get("style", "")).removeprefix("text-align:")
    return f'<{token.tag} class="to-{side}">' if side else f"<{token.tag}>"


RULES: dict[str, Any] = {
    "fence": _fence,
    "code_block": _fence,
    "formula": _formula,
    "link_open": _link,
    "image": _picture,
    "th_open": _cell,
    "td_open": _cell,
    # Paragraphs show their line breaks: another one behind <br> would be two.
    "hardbreak": lambda *_: "<br>",
    "table_open": lambda *_: '<div class="table" tabindex="0" role="group" aria-label="Table"><table>\n',
    "table_close": lambda *_: "</table></div>\n",
}
"""What is written otherwise than markdown-it would."""
