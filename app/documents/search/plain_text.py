"""A passage as a person reads it, without the marks of its Markdown.

    ## Rent            Rent
    **740** euros      740 euros
    | May | 2 |        May · 2

Only the text that is shown changes: passages are stored, searched and quoted as they are.
"""

from dataclasses import replace
from functools import cache
from pathlib import PurePath

from markdown_it import MarkdownIt
from markdown_it.token import Token

from app.values.document import Passage

SUFFIXES = ("", ".md", ".markdown", ".txt", ".html", ".htm", ".xhtml", ".docx", ".docm")
"""Of titles whose texts are read as Markdown. In source code the same marks mean something else."""
CELLS = " \u00b7 "
BULLET = "\u2022 "
BETWEEN = "\n\n"
ENDS = {
    **dict.fromkeys(("heading_close", "paragraph_close", "table_close", "fence", "code_block"), BETWEEN),
    **dict.fromkeys(("bullet_list_close", "ordered_list_close"), BETWEEN),
    **dict.fromkeys(("th_close", "td_close"), CELLS),
    **dict.fromkeys(("tr_close", "softbreak", "hardbreak"), "\n"),
}
"""What stands behind each kind of token."""


def plain_passage(passage: Passage) -> Passage:
    """The passage with its text as plain text; as it is where it is source code, or holds nothing but marks."""
    if PurePath(passage.title).suffix.lower() not in SUFFIXES:
        return passage
    text = plain_text(passage.text)
    return replace(passage, text=text) if text else passage


def plain_text(markdown: str) -> str:
    """The words of a text in Markdown: a line for each item and row, an empty line between other blocks."""
    text = "".join(map(_words, _tokens(markdown))).replace(f"{CELLS}\n", "\n")
    return BETWEEN.join(block.strip("\n") for block in text.split(BETWEEN) if block.strip())


def _tokens(markdown: str) -> list[Token]:
    """The blocks of a text. It may begin with rows of a table whose head is in the passage before."""
    text = markdown.lstrip()
    if text.startswith("|"):
        first, end, others = text.partition("\n")
        delimiters = "|---" * (first.count("|") - 1)
        tokens = _parser().parse(f"{first}\n{delimiters}|{end}{others}")
        if tokens[0].type == "table_open":
            return tokens
    return _parser().parse(markdown)


@cache
def _parser() -> MarkdownIt:
    # Definitions like "[1]: there" are text here, and so are tags.
    parser = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
    return parser.disable(["html_block", "html_inline", "reference"])


def _words(token: Token) -> str:
    """What a block, or a part of one, adds to the text."""
    if token.type in ("inline", "image"):
        return "".join(map(_words, token.children or ()))
    if token.type == "list_item_open":
        return f"{token.info}{token.markup} " if token.info else BULLET
    if token.type == "paragraph_close" and token.hidden:  # of an item
        return "\n"
    return token.content + ENDS.get(token.type, "")
