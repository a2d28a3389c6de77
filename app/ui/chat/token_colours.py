"""A reply's text with every token coloured by who proposed it, step by step.

marks (2, model, 0) (5, output, 1) (9, output, 1) on "I do know it":

    [I ][ do][ kno] w it     the second and third token came in one step; what no mark covers stays plain
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from html import escape
from itertools import groupby
from operator import attrgetter
from typing import get_args

from app.chat_messages import TokenMark
from app.messages import Origin


def coloured_html(text: str, marks: Sequence[TokenMark]) -> str:
    """The text as it was written, a span for each token and one around each step, under a legend."""
    parts, start = [], 0
    for _, step in groupby(marks, key=attrgetter("step")):
        tokens = tuple(step)
        parts.append(_step(text, start, tokens))
        start = tokens[-1].end
    return f'{_legend(marks)}<p class="tokens">{"".join(parts)}{escape(text[start:])}</p>'


def _step(text: str, start: int, tokens: Sequence[TokenMark]) -> str:
    spans = "".join(_spans(text, start, tokens))
    return f'<span class="step">{spans}</span>' if spans else ""


def _spans(text: str, start: int, tokens: Sequence[TokenMark]) -> Iterator[str]:
    """A span for each token of a step that added text: some are part of a character alone."""
    for mark in tokens:
        piece, start = text[start : mark.end], max(start, mark.end)
        if piece:
            about = in_words(mark, len(tokens))
            yield f'<span class="origin-{mark.origin}" title="{about}">{escape(piece)}</span>'


def in_words(mark: TokenMark, tokens: int) -> str:
    """How a token came: "history · step 12 · 4 tokens in one step"."""
    if mark.step == 0:
        return f"{mark.origin} · with the prompt"
    together = f"{tokens} tokens in one step" if tokens > 1 else "alone in its step"
    return f"{mark.origin} · step {mark.step:,} · {together}"


def _legend(marks: Sequence[TokenMark]) -> str:
    """What the colours mean, and how much of the text each has."""
    counts = Counter(mark.origin for mark in marks)
    entries = "".join(
        f'<li class="origin-{origin}">{origin} {counts[origin] / len(marks):.0%}</li>'
        for origin in get_args(Origin)
        if counts[origin]
    )
    return f'<ul class="origins" aria-label="Tokens by who proposed them">{entries}</ul>'
