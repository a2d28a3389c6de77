"""Finds where fenced blocks end, also if a block of Markdown contains other fenced blocks.

In CommonMark the first closing fence ends a block. Models write a README as one block that holds blocks of code, so
in a block of Markdown a fence with a language opens an inner block, and the next bare fence closes the inner block.
"""

import re

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock, fence
from markdown_it.token import Token

_FENCE = re.compile(r" {0,3}(`{3,}(?=[^`]*$)|~{3,})[ \t]*(.*)")
Fences = tuple[tuple[str, bool], ...]
"""The fences that are open, outermost first: the fence's characters, and whether its block is Markdown."""


def opened_by(token: Token) -> Fences:
    """Return the fence that opens the block of a token."""
    return ((token.markup, _is_markdown(token.info)),)


def still_open(fences: Fences, lines: str) -> Fences:
    """Return the fences that are still open after these lines; an empty tuple if the block is closed."""
    if "```" not in lines and "~~~" not in lines:
        return fences
    for line in lines.split("\n"):
        found = _FENCE.match(line)
        if not found or not found[1].startswith(fences[-1][0]):
            continue
        if not found[2].strip():
            fences = fences[:-1]
        elif fences[-1][1]:
            fences = (*fences, (found[1], _is_markdown(found[2])))
        if not fences:
            break
    return fences


def _is_markdown(info: str) -> bool:
    return info.lower().split()[:1] in (["markdown"], ["md"])


def add_fences(markdown: MarkdownIt) -> None:
    """Make a parser accept fenced blocks inside a fenced block of Markdown."""
    options = {"alt": ["paragraph", "reference", "blockquote", "list"]}
    markdown.block.ruler.at("fence", _rule, options)  # type: ignore[arg-type]


def _rule(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Read a block as CommonMark does; if it is Markdown, find its closing fence by this module's rule."""
    is_block = fence(state, start, end, silent)
    if silent or not is_block or not _is_markdown(state.tokens[-1].info):
        return is_block
    token, last = state.tokens[-1], start + 1
    fences = opened_by(token)
    while last < end and (state.isEmpty(last) or state.sCount[last] >= state.blkIndent):
        fences = still_open(fences, state.getLines(last, last + 1, state.blkIndent, False))
        if not fences:
            break
        last += 1
    token.content = state.getLines(start + 1, last, state.sCount[start], True)
    state.line = last if fences else last + 1
    token.map = [start, state.line]
    return True
