"""Markdown as HTML while it arrives, many times a second, without rendering all of it each time.

Markdown is read by lines, from left to right, and what ends a block stands in the next one: so all top-level
blocks but the last two are final, whatever follows, and are rendered once. But a formula of several lines may hold
what looks like blocks until it ends; only a blank line rules that out. So what is settled ends with one.

    "# A\\n\\nb\\n\\nc"    A is settled; b and c are rendered anew with every update
    "```py\\nlong…"     an open block of code only grows: what is new is coloured, the rest is kept

Formulas that are not closed yet are closed for show. A very long last block, a list of a hundred items, is
shown a little later rather than at any cost: rendering takes no more than a share of the time. When all has come,
the HTML is that of `render`.
"""

import re
from collections.abc import Callable
from itertools import pairwise
from time import perf_counter

from markdown_it.token import Token

from app.ui.chat.code import CODE_END, code_opening, coloured, language_of
from app.ui.chat.formulas import CLOSING
from app.ui.chat.markdown import parser
from app.ui.chat.plain_text import LivePlain, rendered_part

OPEN_BLOCKS = 2
"""Top-level blocks at the end that may still change."""
CHUNK = 300
"""Characters of code after which a piece of an open block is coloured for the last time."""
SHARE = 1 / 25
"""How much of the time may go into rendering."""
QUICK = 2_000
"""Characters of open blocks that are rendered within milliseconds."""

_BREAK = re.compile(r"\r\n?")
_FENCE_LINE = re.compile(r"^[^\S\n]*+(?:```|~~~)", re.MULTILINE)
_FORMULA_MARK = re.compile(r"\$\$|\\[\[\]()]")


class LiveMarkdown:
    """A text's HTML as far as it has come."""

    def __init__(self, clock: Callable[[], float] = perf_counter) -> None:
        self._clock = clock
        self._forget()

    def _forget(self) -> None:
        self._rests_until = 0.0
        self._text = self._rest = self._held = self._open = self._before = self._tail = ""
        self._settled: list[str] = []
        self._code: OpenCode | None = None
        self._is_done = False
        self._plain = LivePlain()

    @property
    def blocks(self) -> tuple[str, ...]:
        """Settled blocks, and what is still open; behind them the rest of a very long text."""
        return (*self._settled, self._tail, *self._plain.blocks)

    @property
    def is_slow(self) -> bool:
        """Whether the next update may take more than some milliseconds."""
        return len(self._open) > QUICK

    @property
    def html(self) -> str:
        """All of it."""
        return "".join(self.blocks)

    def update(self, text: str, is_done: bool = False) -> None:
        """Take the text that there is now. One that does not continue the former begins anew."""
        part = rendered_part(text)
        rest = text[len(part) :]
        if not (part.startswith(self._text) and rest.startswith(self._rest)):
            self._forget()
        self._update(part, is_done or bool(rest))
        self._plain.update(rest)
        self._rest = rest

    def _update(self, text: str, is_done: bool) -> None:
        if self._is_done and is_done and len(text) == len(self._text):
            return
        self._is_done = is_done
        piece = self._taken(text, is_done)
        self._open += piece
        if self._code is not None:
            self._code.push(piece)
        if not piece and not is_done:
            return
        if is_done:
            self._tail = _rendered(parser().parse(self._open))
        elif self._code is not None and not self._code.is_closed:
            self._tail = self._before + self._code.html
        elif (now := self._clock()) >= self._rests_until:
            self._read()
            self._rests_until = now + (self._clock() - now) / SHARE

    def _taken(self, text: str, is_done: bool) -> str:
        """Return the new text. A carriage return at the end waits for the line feed that may belong to it."""
        piece = self._held + text[len(self._text) :]
        self._text = text
        self._held = "\r" if piece.endswith("\r") and not is_done else ""
        return _BREAK.sub("\n", piece.removesuffix(self._held))

    def _read(self) -> None:
        tokens = parser().parse(self._open)
        last = tokens[-1] if tokens else None
        self._code = _open_code(last, self._open) if last and last.type == "fence" else None
        tokens = self._settle(tokens)
        if self._code is None:
            self._tail = self._shown(tokens)
        else:
            self._before = _rendered(tokens[:-1])
            self._tail = self._before + self._code.html

    def _settle(self, tokens: list[Token]) -> list[Token]:
        """Render for good what nothing can change any more; the tokens and the text of the rest are left."""
        starts = [index for index, token in enumerate(tokens) if token.level == 0 and token.nesting >= 0]
        # An open block of code has its first line: nothing below can change what comes before it.
        count = len(starts) - (1 if self._code else OPEN_BLOCKS)
        lines = self._open.split("\n")
        while count > 0 and lines[_line(tokens[starts[count]]) - 1].strip():
            count -= 1
        if count <= 0:
            return tokens
        bounds = pairwise(starts[: count + 1])
        self._settled += [_rendered(tokens[begin:end]) for begin, end in bounds]
        rest = tokens[starts[count] :]
        self._open = "\n".join(lines[_line(rest[0]) :])
        return rest

    def _shown(self, tokens: list[Token]) -> str:
        closing = _missing_mark(self._open)
        return _rendered(parser().parse(self._open + closing) if closing else tokens)


class OpenCode:
    """A block of code that is not closed yet. Its pieces are coloured each on their own until it is."""

    def __init__(self, fence: Token) -> None:
        mark = re.escape(fence.markup[0])
        self._end = re.compile(rf"^ {{0,3}}{mark}{{{len(fence.markup)},}}[ \t]*$", re.MULTILINE)
        self._language = language_of(fence.info)
        self._settled = code_opening(self._language)
        self._rest = ""

    def push(self, code: str) -> None:
        """Add more of the code."""
        self._rest += code
        if self.is_closed:
            return
        begin = 0
        pieces = [self._settled]
        while cut := self._rest.find("\n", begin + CHUNK) + 1:
            pieces.append(coloured(self._rest[begin:cut], self._language))
            begin = cut
        self._settled = "".join(pieces)
        self._rest = self._rest[begin:]

    @property
    def is_closed(self) -> bool:
        """Whether the line that ends it is there, or seems to be."""
        return self._end.search(self._rest) is not None

    @property
    def html(self) -> str:
        """The block, closed for show."""
        return f"{self._settled}{coloured(self._rest, self._language)}{CODE_END}"


def _line(block: Token) -> int:
    """Return the line on which a block begins."""
    return (block.map or [0])[0]


def _open_code(fence: Token, text: str) -> OpenCode | None:
    """Return the block of code at the text's end, if it is open and begins at the margin."""
    opening, has_end, code = text.split("\n", _line(fence))[-1].partition("\n")
    if not has_end or not opening.startswith(fence.markup):
        return None
    block = OpenCode(fence)
    block.push(code)
    return None if block.is_closed else block


def _missing_mark(text: str) -> str:
    """Return the mark that would close the formula that is open in the last paragraph; "" if none is."""
    if len(_FENCE_LINE.findall(text)) % 2:
        return ""
    opened = ""
    for mark in _FORMULA_MARK.findall(text.rpartition("\n\n")[2]):
        if opened:
            opened = "" if mark == CLOSING[opened] else opened
        elif mark in CLOSING:
            opened = mark
    return CLOSING[opened] if opened else ""


def _rendered(tokens: list[Token]) -> str:
    return str(parser().renderer.render(tokens, parser().options, {}))
