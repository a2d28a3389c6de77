"""An answer's sources on the page: [1] in its text as a small button, and a quiet line below it.

Only numbers that stand for a source become buttons, and only in the text itself:

    "x[1] is <code>x[1]</code> [9]"   with one source, the first [1] alone is a button
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from html import escape

from markupsafe import Markup

from app.display_text import counted
from app.document_messages import Citation, Sources, TokenBudget
from app.ui.templates import render

_TAG = re.compile(r"(<[^>]*>)")
_MARKER = re.compile(r"\[(\d{1,3})\]")
_UNTOUCHED = ("code", "pre", "math", "a", "button", "summary")


def cited_html(html: str, message: int, sources: Sources | None) -> str:
    """Return a rendered answer with its markers as buttons, which carry the message and the number."""
    return _cited(html, message, sources.cited) if sources and sources.cited else html


@lru_cache(maxsize=256)
def _cited(html: str, message: int, cited: tuple[Citation, ...]) -> str:
    buttons = {source.number: marker_html(message, source) for source in cited}
    return "".join(_parts(html, buttons))


def _parts(html: str, buttons: dict[int, str]) -> Iterator[str]:
    inside = 0  # how many untouched elements are open
    for part in _TAG.split(html):
        if not part.startswith("<"):
            yield (
                _MARKER.sub(lambda found: buttons.get(int(found[1]), found[0]), part) if not inside else part
            )
            continue
        if part.strip("</>").split(" ", 1)[0] in _UNTOUCHED:
            inside += -1 if part.startswith("</") else 1
        yield part


def marker_html(message: int, cited: Citation) -> str:
    """Return [1] as a button."""
    spoken = escape(f"Source {cited.number}: {cited.title}")
    return (
        f'<button type="button" class="cite" data-do="source" data-name="{message}" data-value="{cited.number}"'
        f' aria-label="{spoken}" title="{spoken}">{cited.number}</button>'
    )


def sources_html(message: int, sources: Sources | None) -> Markup:
    """Return the line below an answer: its sources, and what the prompt was made of."""
    if sources is None or not sources.cited:
        return Markup()
    return render("sources.html", message=message, cited=sources.cited, facts=list(_facts(sources)))


def _facts(sources: Sources) -> Iterator[str]:
    if sources.is_whole:
        yield "whole documents were used"
    if sources.budget:
        yield budget_in_words(sources.budget)
    if sources.left_out:
        yield f"{counted(sources.left_out, 'passage')} found that did not fit"


def budget_in_words(budget: TokenBudget) -> str:
    """ "Prompt: system 20, sources 390, chat 80, question 14; 256 reserved for the reply; context 1,024 tokens"."""
    parts = (
        ("system", budget.system),
        ("sources", budget.sources),
        ("chat", budget.history),
        ("question", budget.question),
    )
    prompt = ", ".join(f"{name} {tokens:,}" for name, tokens in parts if tokens)
    return f"Prompt: {prompt}; {budget.reply:,} reserved for the reply; context {budget.context:,} tokens"
