"""Markdown as HTML that is safe to show, whoever wrote it: CommonMark with tables, strikethrough, task lists and
bare links. HTML tags are shown as they are written, pictures as their alternative text (nothing is ever fetched),
and links lead only to http, https and mailto. Definitions like "[1]: there" are text, because replies list their
sources in this way. So no block depends on the blocks before it, and a text can be rendered in parts:

    render("# A\\n\\nb\\n") == render("# A\\n") + render("\\nb\\n")

Line breaks and the indentation after them are kept, because small models write code without fences.
"""

import re
import unicodedata
from collections.abc import Sequence
from functools import cache, lru_cache
from html import escape
from typing import Any

from linkify_it import LinkifyIt
from markdown_it import MarkdownIt
from markdown_it.parser_inline import ParserInline
from markdown_it.renderer import RendererHTML
from markdown_it.rules_core import StateCore
from markdown_it.rules_inline import StateInline
from markdown_it.rules_inline.state_inline import Scanned
from markdown_it.token import Token

from app.ui.chat.code import code_html
from app.ui.chat.fences import add_fences
from app.ui.chat.formulas import add_formulas, formula_html
from app.ui.chat.plain_text import plain_html, rendered_part

KEPT_TEXTS = 512
"""How many rendered texts are cached."""
DEEPEST = 60
"""Maximum depth of nested lists and quotes; what is nested deeper is not parsed."""
LONGEST_PARAGRAPH, LONGEST_LINK = 20_000, 2_000
"""A paragraph with more characters is shown as it was written; a longer address does not become a link."""
MOST_BRACKETS = 1_000_000
"""A paragraph is shown as it was written if (its opening brackets) x (its characters) is more than this, because at
each bracket the parser may search the rest of the paragraph for a link. 5,000 characters may have 200 brackets, and
1,000 characters any number."""

DIRECTED = ("paragraph_open", "heading_open", "bullet_list_open", "ordered_list_open")
"""Blocks whose direction follows their first letter. Code always runs from left to right."""

_BOX = re.compile(r"\[([ xX])\] ")
_SAFE_LINK = re.compile(r"(?:https?://|mailto:)[^\s<>\"]+", re.IGNORECASE)


class CjkInline(StateInline):
    """Parses bold and italic words also in Chinese, Japanese and Korean, which have no spaces between words.

    CommonMark leaves the stars of "**「重点」**内容" as they are, because they are between punctuation and letters.
    The CJK-friendly amendments to CommonMark are followed here: stars may open or close bold text beside any
    character of these scripts, as they may beside a space."""

    def scanDelims(self, start: int, canSplitWord: bool) -> Scanned:  # noqa: N802, N803
        found = super().scanDelims(start, canSplitWord)
        if not canSplitWord:  # the marks are underscores
            return found
        end = start + found.length
        before, after = self.src[max(start - 1, 0) : start], self.src[end : min(end + 1, self.posMax)]
        opens = found.can_open or _is_cjk(after) or (_is_cjk(before) and bool(after.strip()))
        closes = found.can_close or _is_cjk(before) or (_is_cjk(after) and bool(before.strip()))
        return Scanned(opens, closes, found.length)


def _is_cjk(sign: str) -> bool:
    """Return whether a character is a letter or punctuation of Chinese, Japanese or Korean; emoji are not."""
    if not sign or sign.isascii() or sign.isspace() or unicodedata.category(sign) == "So":
        return False
    return unicodedata.east_asian_width(sign) in "FWH"


class BoundedInline(ParserInline):
    """Parses the inline content of a paragraph, unless that would take too long."""

    def parse(self, src: str, md: MarkdownIt, env: Any, tokens: list[Token]) -> list[Token]:
        """Add the tokens of inline content; a single text token if it is too long or has too many brackets."""
        if len(src) <= LONGEST_PARAGRAPH and src.count("[") * len(src) <= MOST_BRACKETS:
            state = CjkInline(src, md, env, tokens)
            self.tokenize(state)
            for rule in self.ruler2.getRules(""):
                rule(state)
            return tokens
        tokens.append(Token("text", "", 0, content=src))
        return tokens


class SafeMarkdown(MarkdownIt):
    """A parser that makes only safe links; all other links stay text."""

    def __init__(self) -> None:
        options = {"html": False, "xhtmlOut": False, "maxNesting": DEEPEST, "linkify": True}
        super().__init__("commonmark", options)
        self.inline = BoundedInline()
        self.linkify = LinkifyIt(options={"fuzzy_link": False, "fuzzy_email": False, "fuzzy_ip": False})
        self.enable(["table", "strikethrough", "linkify"]).disable(["html_block", "html_inline", "reference"])

    def normalizeLink(self, url: str) -> str:  # noqa: N802
        return super().normalizeLink(url) if len(url) <= LONGEST_LINK else ""

    def validateLink(self, url: str) -> bool:  # noqa: N802
        return _SAFE_LINK.fullmatch(url) is not None


def render(text: str) -> str:
    """Return Markdown as HTML; the end of a very long text is shown as plain text."""
    part = rendered_part(text)
    return _cached(part) + plain_html(text[len(part) :])


@lru_cache(maxsize=KEPT_TEXTS)
def _cached(text: str) -> str:
    return str(parser().render(text))


@cache
def parser() -> MarkdownIt:
    """Return the shared parser with its renderer; it keeps no state between texts."""
    markdown = SafeMarkdown()
    markdown.inline.ruler.at("newline", _newline)
    add_formulas(markdown)
    add_fences(markdown)
    markdown.core.ruler.after("block", "directions", _directions)
    markdown.core.ruler.after("inline", "task_lists", _boxes)
    for name, rule in RULES.items():
        markdown.add_render_rule(name, rule)
    return markdown


def _directions(state: StateCore) -> None:
    """Let each block's text decide the block's direction; all items of a list have the same direction."""
    parents = [""]
    for token in state.tokens:
        if token.nesting == -1:
            parents.pop()
        elif token.nesting == 1:
            if token.type in DIRECTED and (token.type != "paragraph_open" or parents[-1] != "list_item_open"):
                token.attrSet("dir", "auto")
            parents.append(token.type)


def _newline(state: StateInline, silent: bool) -> bool:
    """Parse a line break and keep the spaces after it; two or more spaces before it make a hard break."""
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
    look = f' class="to-{side}"' if side else ""
    return f'<{token.tag} dir="auto"{look}>'


def _boxes(state: StateCore) -> None:
    """Make boxes of "- [ ] to do" and "- [x] done". (The plugin in mdit-py-plugins would take quadratic time.)"""
    tokens = state.tokens
    for item, paragraph, inline in zip(tokens, tokens[1:], tokens[2:], strict=False):
        if (item.type, paragraph.type) != ("list_item_open", "paragraph_open") or not inline.children:
            continue
        first = inline.children[0]
        found = _BOX.match(first.content) if first.type == "text" else None
        if found:
            item.attrSet("class", "task")
            first.content = first.content[found.end() :]
            inline.children.insert(0, Token("task_box", "", 0, meta={"is_done": found[1] != " "}))


def _box_html(_: Any, tokens: list[Token], index: int, *__: Any) -> str:
    state, words = (" checked", "Done") if tokens[index].meta["is_done"] else ("", "To do")
    return f'<input type="checkbox" disabled{state} aria-label="{words}">'


RULES: dict[str, Any] = {
    "code_inline": lambda _, tokens, index, *__: f'<code dir="ltr">{escape(tokens[index].content)}</code>',
    "task_box": _box_html,
    "fence": _fence,
    "code_block": _fence,
    "formula": _formula,
    "link_open": _link,
    "image": _picture,
    "th_open": _cell,
    "td_open": _cell,
    # markdown-it adds a line break after <br>, which would be shown as a second one.
    "hardbreak": lambda *_: "<br>",
    "table_open": lambda *_: '<div class="table" tabindex="0" role="group" aria-label="Table"><table>\n',
    "table_close": lambda *_: "</table></div>\n",
}
"""The elements that are rendered differently from markdown-it's defaults."""
