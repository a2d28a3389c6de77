"""Task lists in Markdown: "- [ ] to do", "- [x] done". (mdit-py-plugins' own takes time squared in a long list.)"""

import re
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.rules_core import StateCore
from markdown_it.token import Token

_BOX = re.compile(r"\[([ xX])\] ")


def add_task_lists(markdown: MarkdownIt) -> None:
    """Teach a parser task lists."""
    markdown.core.ruler.after("inline", "task_lists", _boxes)
    markdown.add_render_rule("task_box", _box_html)


def _boxes(state: StateCore) -> None:
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
    is_done = tokens[index].meta["is_done"]
    state, words = (" checked", "Done") if is_done else ("", "To do")
    return f'<input type="checkbox" disabled{state} aria-label="{words}">'
