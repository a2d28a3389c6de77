"""Blocks of code: a header with the language and a button to copy, and colours by kind of word."""

import re
from collections.abc import Iterator
from functools import cache, lru_cache
from html import escape
from itertools import groupby
from operator import itemgetter
from time import thread_time

from pygments.lexer import Lexer
from pygments.lexers import find_lexer_class_by_name
from pygments.token import Token, _TokenType
from pygments.util import ClassNotFound

LONGEST = 20_000
"""Code with more characters keeps one colour, because colouring it would take too long."""
LONGEST_LINE = 1_000
"""Code with a longer line keeps one colour, because lexers may look ahead to the end of the line at each word."""
TIME_LIMIT = 0.25
"""Seconds of processor time after which the rest of a block keeps one colour. Code usually takes a tenth of that,
but a page of prose that is labelled as C# would take minutes."""
_GAP = re.compile(r"\s{200}")
"""Code with 200 blanks in a row keeps one colour, because lexers for C rescan them from each position."""

KINDS: dict[_TokenType, str] = {
    Token.Keyword: "k", Token.Keyword.Constant: "n", Token.Name.Builtin: "b", Token.Name.Function: "f",
    Token.Name.Class: "f", Token.Name.Decorator: "f", Token.Name.Tag: "k", Token.Name.Attribute: "b",
    Token.Name.Exception: "b", Token.Literal.String: "s", Token.Literal.Number: "n", Token.Operator.Word: "k",
    Token.Comment: "c", Token.Comment.Preproc: "b", Token.Generic.Heading: "f", Token.Generic.Deleted: "d",
    Token.Generic.Inserted: "i",
}  # fmt: skip
"""The kinds of words that have a colour, with their classes in assets/ui/chat.css."""


def code_html(code: str, info: str) -> str:
    """Return a block of code as HTML. The first word of `info`, the text after the fence, names the language."""
    language = language_of(info)
    colour = _cached if len(code) <= LONGEST else coloured
    return f"{code_opening(language)}{colour(code, language)}{CODE_END}"


def language_of(info: str) -> str:
    """Return the language from the text after a fence: "python" for "python title=x"."""
    return (info.split() or [""])[0][:30]


CODE_END = "</code></pre></div>"


def code_opening(language: str) -> str:
    """Return the HTML before the code itself: the header with the language and the button to copy."""
    name = escape(language)
    return (
        f'<div class="code"><div class="code-top"><span>{name or "text"}</span>'
        f'<button type="button" class="quiet" data-copy="code" aria-label="Copy code">Copy</button></div>'
        f'<pre tabindex="0" dir="ltr"><code>'
    )


def coloured(code: str, language: str) -> str:
    """Return code as HTML, coloured if its language is known and colouring is fast. Tabs are kept."""
    lexer = _lexer_class(language.lower())
    is_slow = len(code) > LONGEST or _GAP.search(code) or max(map(len, code.split("\n"))) > LONGEST_LINE
    if lexer is None or is_slow:
        return escape(code)
    words = _in_time(lexer(stripnl=False, ensurenl=False).get_tokens(code), code)
    # Neighbouring words of one kind are joined, so that the browser gets fewer elements.
    runs = groupby(((_kind(token), escape(text)) for token, text in words), key=itemgetter(0))
    joined = ((kind, "".join(text for _, text in run)) for kind, run in runs)
    return "".join(f'<span class="{kind}">{text}</span>' if kind else text for kind, text in joined)


_cached = lru_cache(maxsize=128)(coloured)


def _in_time(words: Iterator[tuple[_TokenType, str]], code: str) -> Iterator[tuple[_TokenType, str]]:
    """Yield the words until the time limit, then the rest of the code as one word."""
    start, end = 0, thread_time() + TIME_LIMIT
    for token, text in words:
        yield token, text
        start += len(text)
        if thread_time() > end:
            yield Token.Text, code.removeprefix("\ufeff")[start:]
            return


@cache
def _kind(token: _TokenType) -> str:
    """Return the CSS class of a kind of word or its nearest ancestor with a colour; "" if none has a colour."""
    while token is not Token:
        if token in KINDS:
            return KINDS[token]
        token = token.parent
    return ""


@cache
def _lexer_class(language: str) -> type[Lexer] | None:
    try:
        return find_lexer_class_by_name(language) if language else None
    except ClassNotFound:
        return None
