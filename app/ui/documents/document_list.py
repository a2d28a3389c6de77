"""The documents of a collection: how far each is, what is to be told of it, and what can be done."""

from collections.abc import Iterator, Sequence
from html import escape

from app.document_messages import Collection, Document
from app.ui.documents.collection_list import sure_html
from app.ui.documents.reading import Passport, opening_html
from app.ui.documents.words import UNDER_WAY, collection_in_words, document_in_words, progress_in_words
from app.ui.pieces import badge, button

EMPTY = "Paste a text or drop files above, and ask about them in a chat; all of it stays on this computer."


def title_html(collection: Collection | None) -> str:
    """What is open."""
    if collection is None:
        return "<h2>Documents</h2>"
    return f'<h2>{escape(collection.name)}</h2><p class="facts">{escape(collection_in_words(collection))}</p>'


def problem_html(problem: str) -> str:
    """What all documents wait for; nothing where they wait for nothing."""
    return f'<p class="note-of" role="status">{escape(problem)}</p>' if problem else ""


def documents_html(documents: Sequence[Document], most: int, asked: int = 0) -> str:
    """The first `most` of them; on the one that is `asked` about stands the question whether to remove it."""
    if not documents:
        return f'<p class="empty">{EMPTY}</p>'
    rows = "".join(f"<li>{_row(one, one.id == asked)}</li>" for one in documents[:most])
    return f'<ul class="papers" aria-label="Documents">{rows}</ul>{_more(len(documents) - most)}'


def _more(left: int) -> str:
    if left <= 0:
        return ""
    return f'<p class="rest">{button(f"Show {left:,} more", "more")}</p>'


def _row(document: Document, is_asked: bool) -> str:
    remove = button("Remove", "remove", str(document.id), about=document.title, kind="danger")
    question = sure_html(f"Remove “{document.title}”?", remove) if is_asked else ""
    note = f'<p class="note-of" role="status">{escape(document.note)}</p>' if document.note else ""
    return (
        f'<article class="paper is-{document.state}"><header>{_title(document)}{_state(document)}</header>'
        f'<p class="facts">{escape(document_in_words(document))}</p>{_progress(document)}{note}{question}'
        f'<div class="actions">{"".join(_buttons(document))}</div></article>'
    )


def _title(document: Document) -> str:
    """Its name, which opens it once there is a text."""
    if not document.characters:
        return f"<h4>{escape(document.title)}</h4>"
    return f"<h4>{opening_html(Passport(document.id, document.title))}</h4>"


def _state(document: Document) -> str:
    return "" if document.state == "ready" else badge(progress_in_words(document))


def _progress(document: Document) -> str:
    if document.state not in ("reading", "indexing"):
        return ""
    value = f' value="{document.done}"' if document.total else ""
    return (
        f'<progress{value} max="{max(document.total, 1)}" aria-label="{escape(document.title)}"></progress>'
    )


def _buttons(document: Document) -> Iterator[str]:
    name = str(document.id)
    if document.state in UNDER_WAY:
        yield button("Cancel", "cancel", name, about=document.title)
        return
    if document.state in ("failed", "cancelled"):
        yield button("Try again", "again", name, about=document.title)
    yield button("Remove", "ask-remove", name, about=document.title)
