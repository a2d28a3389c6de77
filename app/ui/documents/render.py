"""Renders the Documents view: reads the documents service and fills assets/ui/templates/documents.html."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from markupsafe import Markup

from app.conversation.prompt_sources import excerpt
from app.settings import DEFAULT_EMBEDDER
from app.ui.documents.document_panel import DocumentRef, found_by
from app.ui.documents.view import (
    DocumentsState,
    EmbeddingModelStatus,
    SearchResult,
    embedding_model_status,
    listed_collections,
    open_collection,
)
from app.ui.frame.page_updates import CachedRenderer, Parts
from app.ui.frame.services import Services
from app.ui.frame.templates import render_macro
from app.ui.models.render import download_words
from app.values.display_text import counted
from app.values.document import UNFINISHED, Collection, Document, DocumentState

TEMPLATE = "documents.html"
STATES: dict[DocumentState, str] = {
    "waiting": "Waiting",
    "reading": "Reading",
    "indexing": "Indexing",
    "ready": "Ready",
    "failed": "Failed",
    "cancelled": "Cancelled",
}
EXCERPT = 400
"""Maximum characters of a passage in the search results."""
DEFAULT_EMBEDDER_SIZE = "90 MB"
"""The download size of DEFAULT_EMBEDDER. Sizes of other models are known only after a request to the hub."""


class DocumentsRenderer(CachedRenderer):
    def __init__(self, services: Services, state: DocumentsState) -> None:
        self._services = services
        self._documents = services.documents
        self._state = state

    def inputs(self) -> tuple[object, ...]:
        state, documents = self._state, self._documents
        # `changes` is read before the lists, so that a change in between is rendered next time.
        changes = (documents.changes, documents.problem)
        return changes, state.collection, state.listed, state.result, embedding_model_status(self._services)

    def draw(self, inputs: tuple[Any, ...]) -> Parts:
        *_, embedder = inputs
        state, collections = self._state, listed_collections(self._services)
        shown = open_collection(collections, state)
        documents = self._documents.documents(shown.id) if shown else ()
        ids = {document.id for document in documents}
        # Documents may have been removed since the search.
        hits = tuple(hit for hit in state.result.hits if hit.passage.document in ids)
        return {
            "collections": collections_html(collections, shown.id if shown else 0),
            "collection-title": title_html(shown),
            "semantic-search": semantic_search_html(embedder),
            "search-results": results_html(replace(state.result, hits=hits)),
            "document-list": documents_html(documents, state.listed, self._documents.problem),
        }


def collections_html(collections: Sequence[Collection], shown: int) -> Markup:
    return render_macro(TEMPLATE, "collection_list", collections=collections, shown=shown)


def title_html(collection: Collection | None) -> Markup:
    facts = [counted(collection.documents, "document")] if collection else []
    if collection and collection.passages:
        facts += [counted(collection.characters, "character"), counted(collection.passages, "passage")]
    return render_macro(TEMPLATE, "title", collection=collection, facts=facts)


def documents_html(documents: Sequence[Document], most: int, problem: str = "") -> Markup:
    """Return the first `most` documents as HTML. `problem` is why no document can be read or indexed now."""
    rows = [_document_row(document) for document in documents[:most]]
    rest = max(0, len(documents) - most)
    unfinished = [document for document in documents if document.state in UNFINISHED]
    return render_macro(
        TEMPLATE, "document_list", rows=rows, rest=rest, problem=problem, unfinished=unfinished
    )


def results_html(result: SearchResult) -> Markup:
    """Return the passages that a search found; nothing before the first search."""
    rows = []
    for hit in result.hits:
        passage = hit.passage
        found = found_by(hit.bm25, hit.similarity, hit.bm25_rank, hit.similarity_rank)
        ref = DocumentRef(passage.document, passage.title, passage.start, passage.end, passage.heading, found)
        rows.append({"ref": ref, "excerpt": list(excerpt(passage, result.question, EXCERPT))})
    return render_macro(TEMPLATE, "results", result=result, rows=rows)


def semantic_search_html(embedder: EmbeddingModelStatus) -> Markup:
    """Describe in a line how documents are searched, and offer the model for semantic search if it is missing."""
    name, download = embedder.name.rpartition("/")[2], embedder.download
    label, running = "", None
    if embedder.is_installed:
        words = "Keyword and semantic search."
    elif embedder.is_downloading and download:
        words = f"Keyword search only. Downloading {name}: {download_words(download)}"
        running = download
    elif embedder.obstacle:
        words = f"Keyword search only. Semantic search needs {name}, {embedder.obstacle}."
    elif download:
        words = f"Keyword search only. {name}: {download.note or 'The download is paused.'}"
        label = "Resume"
    else:
        # In other languages the default model makes the ranking worse than keywords alone.
        is_default = embedder.name == DEFAULT_EMBEDDER
        size, scope = (f" ({DEFAULT_EMBEDDER_SIZE})", " of English texts") if is_default else ("", "")
        words = f"Keyword search only. Download {name}{size} to add semantic search{scope}."
        label = "Download"
    return render_macro(TEMPLATE, "semantic_search", words=words, name=name, label=label, download=running)


def _document_row(document: Document) -> dict[str, object]:
    ref = DocumentRef(document.id, document.title) if document.characters else None
    status, has_progress = STATES[document.state], document.state in ("reading", "indexing")
    if document.total and has_progress:
        status = f"{status}, {document.done:,} of {document.total:,}"
    return {
        "document": document,
        "ref": ref,
        "facts": list(_document_facts(document)),
        "status": "" if document.state == "ready" else status,
        "has_progress": has_progress,
        "is_unfinished": document.state in UNFINISHED,
        "can_retry": document.state in ("failed", "cancelled"),
    }


def _document_facts(document: Document) -> Iterator[str]:
    """Yield the document's source, length and number of passages, and how it can be searched, if they are known."""
    if document.source != document.title:
        yield document.source
    if document.characters:
        yield counted(document.characters, "character")
    if document.state == "ready" and document.passages:
        yield counted(document.passages, "passage")
        if not document.embedded:
            yield "keyword search"
        elif document.embedded < document.passages:
            some = f"{document.embedded:,} of {document.passages:,} passages"
            yield f"keyword search, semantic search for {some}"
        else:
            yield "keyword and semantic search"
