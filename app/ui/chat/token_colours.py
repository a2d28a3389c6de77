"""Renders a reply's text with every token coloured by who proposed it, step by step.

marks (2, model, 0) (5, output, 1) (9, output, 1) on "I do know it":

    [I ][ do][ kno] w it     the second and third token came in one step; text after the last mark stays plain
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import attrgetter
from typing import get_args

from markupsafe import Markup

from app.ui.frame.templates import render
from app.values.chat import TokenMark
from app.values.messages import Origin


def coloured_html(text: str, marks: Sequence[TokenMark]) -> Markup:
    """Return the text as it was written, a span for each token and one around each step, below a legend."""
    steps, start = [], 0
    for _, step in groupby(marks, key=attrgetter("step")):
        tokens = tuple(step)
        if spans := list(_spans(text, start, tokens)):
            steps.append(spans)
        start = tokens[-1].end
    return render("token_colours.html", legend=list(_legend(marks)), steps=steps, rest=text[start:])


def _spans(text: str, start: int, tokens: Sequence[TokenMark]) -> Iterator[tuple[str, str, str]]:
    """The origin, the tooltip and the text of each token of a step; tokens inside a character add no text."""
    for mark in tokens:
        piece, start = text[start : mark.end], max(start, mark.end)
        if piece:
            yield mark.origin, in_words(mark, len(tokens)), piece


def in_words(mark: TokenMark, tokens: int) -> str:
    """Describe how a token came: "history · step 12 · 4 tokens in one step"."""
    if mark.step == 0:
        return f"{mark.origin} · with the prompt"
    together = f"{tokens} tokens in one step" if tokens > 1 else "alone in its step"
    return f"{mark.origin} · step {mark.step:,} · {together}"


def _legend(marks: Sequence[TokenMark]) -> Iterator[tuple[str, str]]:
    """What the colours mean, and how much of the text each has."""
    counts = Counter(mark.origin for mark in marks)
    for origin in get_args(Origin):
        if counts[origin]:
            yield origin, f"{counts[origin] / len(marks):.0%}"
