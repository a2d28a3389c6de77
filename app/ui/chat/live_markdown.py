"""Renders a growing Markdown text as HTML, many times a second, without rendering all of it each time.

All top-level blocks but the last two are final and rendered once, because a block ends when the next one begins.
An open formula of several lines may look like several blocks, so blocks are settled only up to a blank line.

    "# A\\n\\nb\\n\\nc"    A is settled; b and c are rendered again with every update
    "```py\\nlong…"     an open block of code only grows: new code is coloured, the rest is kept

Formulas in $$, \\[ or \\( that are not closed yet are shown as if they were closed. A very long last block is
updated less often. When the text is complete, the HTML equals the result of `markdown.render`.
"""

import re
from collections.abc import Callable
from itertools import pairwise
from time import perf_counter

from markdown_it.token import Token

from app.ui.chat.code import CODE_END, code_opening, coloured, language_of
from app.ui.chat.fences import opened_by, still_open
from app.ui.chat.formulas import CLOSING
from app.ui.chat.markdown import parser
from app.ui.chat.plain_text import LivePlain, rendered_part

OPEN_BLOCKS = 2
"""Number of top-level blocks at the end that may still change."""
CHUNK = 300
"""Minimum characters of a piece of an open block of code. A complete piece is coloured only once."""
SHARE = 1 / 25
"""The share of the time that rendering may take."""
QUICK = 2_000
"""Open blocks with up to this many characters are rendered within milliseconds."""

_BREAK = re.compile(r"\r\n?")
_FENCE_LINE = re.compile(r"^[^\S\n]*+(?:```|~~~)", re.MULTILINE)
_FORMULA_MARK = re.compile(r"\$\$|\\[\[\]()]")


class LiveMarkdown:
    """The HTML of a growing text in Markdown."""

    is_behind: bool
    """Whether the end of the text is not rendered yet."""

    def __init__(self, clock: Callable[[], float] = perf_counter) -> None:
        self._clock = clock
        self._forget()

    def _forget(self) -> None:
        self._rests_until = 0.0
        self._text = self._rest = self._held = self._open = self._before = self._tail = ""
        self._settled: list[str] = []
        self._code: OpenCode | None = None
        self._is_done = self.is_behind = False
        self._plain = LivePlain()

    @property
    def blocks(self) -> tuple[str, ...]:
        """The settled blocks, then a block with all that may still change, then the rest of a very long text."""
        return (*self._settled, self._tail, *self._plain.blocks)

    @property
    def is_slow(self) -> bool:
        """Whether the next update may take more than a few milliseconds."""
        return len(self._open) > QUICK

    @property
    def html(self) -> str:
        """All blocks joined to one string."""
        return "".join(self.blocks)

    def update(self, text: str, is_done: bool = False) -> None:
        """Render the text so far. Everything is rendered anew if the text does not continue the former text."""
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
        piece = self._held + text[len(self._text) :]
        self._text = text
        self._held = "\r" if piece.endswith("\r") and not is_done else ""  # because \n may follow
        piece = _BREAK.sub("\n", piece.removesuffix(self._held))
        self._open += piece
        if self._code is not None:
            self._code.push(piece)
        if not (piece or is_done or self.is_behind):
            return
        self.is_behind = False
        if is_done:
            self._tail = _rendered(parser().parse(self._open))
        elif self._code is not None and not self._code.is_closed:
            self._tail = self._before + self._code.html
        elif (now := self._clock()) >= self._rests_until:
            self._read()
            self._rests_until = now + (self._clock() - now) / SHARE
        else:
            self.is_behind = True

    def _read(self) -> None:
        tokens = parser().parse(self._open)
        last = tokens[-1] if tokens else None
        self._code = _open_code(last, self._open) if last and last.type == "fence" else None
        tokens = self._settle(tokens)
        if self._code is not None:
            self._before = _rendered(tokens[:-1])
            self._tail = self._before + self._code.html
        elif closing := _missing_mark(self._open):
            self._tail = _rendered(parser().parse(self._open + closing))
        else:
            self._tail = _rendered(tokens)

    def _settle(self, tokens: list[Token]) -> list[Token]:
        """Render blocks that can no longer change, and drop them from the open text. Returns the rest."""
        starts = [index for index, token in enumerate(tokens) if token.level == 0 and token.nesting >= 0]
        # After the first line of an open block of code nothing can change the blocks before it.
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


class OpenCode:
    """A block of code that is not closed yet. Each of its pieces is coloured without regard to the others."""

    def __init__(self, fence: Token) -> None:
        self._fences = opened_by(fence)
        self._language = language_of(fence.info)
        self._settled = code_opening(self._language)
        self._rest = ""

    def push(self, code: str) -> None:
        """Add more code to the block, and colour the pieces that are complete."""
        self._rest += code
        if self.is_closed:
            return
        begin = 0
        pieces = [self._settled]
        while cut := self._rest.find("\n", begin + CHUNK) + 1:
            piece = self._rest[begin:cut]
            self._fences = still_open(self._fences, piece)
            pieces.append(coloured(piece, self._language))
            begin = cut
        self._settled = "".join(pieces)
        self._rest = self._rest[begin:]

    @property
    def is_closed(self) -> bool:
        """Whether the block's closing fence is in the code. The last line may still change as it grows."""
        return not still_open(self._fences, self._rest)

    @property
    def html(self) -> str:
        """The block's HTML, closed so that it can be shown."""
        return f"{self._settled}{coloured(self._rest, self._language)}{CODE_END}"


def _line(block: Token) -> int:
    return (block.map or [0])[0]


def _open_code(fence: Token, text: str) -> OpenCode | None:
    """Return the open block of code at the text's end; None if it is closed, indented, or has only its fence."""
    opening, has_end, code = text.split("\n", _line(fence))[-1].partition("\n")
    if not has_end or not opening.startswith(fence.markup):
        return None
    block = OpenCode(fence)
    block.push(code)
    return None if block.is_closed else block


def _missing_mark(text: str) -> str:
    """Return the delimiter that closes the open formula in the last paragraph; "" if none is open."""
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
