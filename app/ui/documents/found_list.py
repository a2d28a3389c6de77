"""What a search has found: passages, each with its document, its scores and its words."""

from collections.abc import Sequence
from html import escape

from app.document_messages import PassageHit
from app.ui.documents.reading import Passport, opening_html
from app.ui.documents.words import scores_in_words
from app.ui.pieces import button
from app.ui.templates import problem_html

LONGEST = 400
"""Characters of a passage that are shown; pressing it opens all of it."""
NEAR = "No passage is near enough to this question: an answer would say that it is not in your documents."


def found_html(searched: str, found: Sequence[PassageHit], problem: str = "") -> str:
    """The result of a search; nothing before one."""
    if problem:
        return problem_html(problem)
    if not searched:
        return ""
    clear = button("Clear", "clear", about="the result")
    over = f'<div class="over"><h3>PassageHit for “{escape(searched)}”</h3>{clear}</div>'
    if not found:
        return f'{over}<p class="facts" role="status">{NEAR}</p>'
    rows = "".join(f"<li>{_row(one)}</li>" for one in found)
    return f'{over}<ol class="papers" aria-label="PassageHit passages">{rows}</ol>'


def _row(found: PassageHit) -> str:
    passage = found.passage
    scores = scores_in_words(found.bm25, found.similarity, found.bm25_rank, found.similarity_rank)
    what = Passport(passage.document, passage.title, passage.start, passage.end, passage.heading, scores)
    heading = f"<span>{escape(passage.heading)}</span>" if passage.heading else ""
    words = passage.text[:LONGEST] + ("…" if len(passage.text) > LONGEST else "")
    return (
        f'<article class="paper"><header><h4>{opening_html(what)}{heading}</h4></header>'
        f'<p class="facts">{escape(scores)}</p><p class="words">{escape(words)}</p></article>'
    )
