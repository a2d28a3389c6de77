"""What the page says of documents, in words."""

from app.display_text import counted
from app.document_messages import Collection, Document, DocumentState

STATES: dict[DocumentState, str] = {
    "waiting": "In line",
    "reading": "Reading",
    "indexing": "Indexing",
    "ready": "Ready",
    "failed": "Not read",
    "cancelled": "Cancelled",
}
UNDER_WAY: tuple[DocumentState, ...] = ("waiting", "reading", "indexing")


def collection_in_words(collection: Collection) -> str:
    """How much there is in a collection."""
    parts = [counted(collection.documents, "document")]
    if collection.passages:
        parts += [counted(collection.characters, "character"), counted(collection.passages, "passage")]
    return " · ".join(parts)


def document_in_words(document: Document) -> str:
    """Where a document came from, how long it is, and by what it can be found."""
    parts = [document.source] if document.source != document.title else []
    if document.characters:
        parts.append(counted(document.characters, "character"))
    if document.state == "ready" and document.passages:
        parts += [counted(document.passages, "passage"), _found_by(document)]
    return " · ".join(parts)


def _found_by(document: Document) -> str:
    """Vectors follow the words, once there is a model that makes them."""
    if not document.embedded:
        return "found by words"
    if document.embedded < document.passages:
        return f"found by words, {document.embedded:,} of {document.passages:,} passages by meaning, too"
    return "found by words and meaning"


def progress_in_words(document: Document) -> str:
    """ "Indexing, 120 of 340"."""
    state = STATES[document.state]
    is_counted = document.total and document.state in ("reading", "indexing")
    return f"{state}, {document.done:,} of {document.total:,}" if is_counted else state


def scores_in_words(bm25: float, similarity: float, bm25_rank: int = 0, similarity_rank: int = 0) -> str:
    """The parts of a score: by words (BM25) and by meaning (cosine); 0 where it was not found so."""
    by_words = f"BM25 {bm25:.2f}{_ranked(bm25_rank)}" if bm25 or bm25_rank else "not found by words"
    has_meaning = similarity or similarity_rank
    by_meaning = f"similarity {similarity:.2f}{_ranked(similarity_rank)}" if has_meaning else ""
    return " · ".join(filter(None, (by_words, by_meaning)))


def _ranked(rank: int) -> str:
    return f" (rank {rank})" if rank else ""
