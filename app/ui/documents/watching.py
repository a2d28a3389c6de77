"""A page's eyes on documents: what its lists show, made anew only when something changed."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from app.document_messages import Collection, Document, PassageHit
from app.ui.documents.collection_list import collections_html
from app.ui.documents.document_list import documents_html, problem_html, title_html
from app.ui.documents.found_list import found_html
from app.ui.documents.meaning import Meaning, meaning_html
from app.ui.documents.port import Documents
from app.ui.documents.seat import DocumentsSeat
from app.ui.page_stream import Parts


@dataclass(frozen=True, slots=True)
class DocumentsScreen:
    """The lists as HTML."""

    collections: str = ""
    title: str = ""
    meaning: str = ""
    found: str = ""
    papers: str = ""


class DocumentsWatcher:
    """Sees documents as screens, from one seat."""

    def __init__(self, documents: Documents, meaning: Callable[[], Meaning], seat: DocumentsSeat) -> None:
        self._documents = documents
        self._meaning = meaning
        self._seat = seat
        self._seen: object = None
        self._screen: DocumentsScreen | None = None

    def look(self) -> DocumentsScreen:
        """The lists as they should be now; the very same object while nothing changed."""
        seat = self._seat
        # Before the lists are read: a change in between is drawn at the next look.
        meaning = self._meaning()
        asked = (seat.collection, seat.listed, seat.question, seat.result)
        seen = (self._documents.changes, self._documents.problem, *asked, meaning)
        if seen != self._seen:
            drawn = self._draw(meaning)
            self._seen = seen
            if drawn != self._screen:  # chats are kept in the same file, whose changes count, too
                self._screen = drawn
        return self._screen or DocumentsScreen()

    def _draw(self, meaning: Meaning) -> DocumentsScreen:
        seat, collections = self._seat, self._documents.collections()
        chosen = chosen_of(collections, seat.collection)
        documents = self._documents.documents(chosen.id) if chosen else ()
        result = seat.result
        return DocumentsScreen(
            collections=collections_html(
                collections, chosen.id if chosen else 0, seat.question.of("collection")
            ),
            title=title_html(chosen),
            meaning=meaning_html(meaning),
            found=found_html(result.searched, _still_there(seat, documents), result.problem),
            papers=problem_html(self._documents.problem)
            + documents_html(documents, seat.listed, seat.question.of("document")),
        )


def documents_parts(now: DocumentsScreen) -> Parts:
    """A screen as the parts of the page."""
    return {
        "collections": now.collections,
        "collection-title": now.title,
        "meaning": now.meaning,
        "found": now.found,
        "papers": now.papers,
    }


def chosen_of(collections: Sequence[Collection], chosen: int) -> Collection | None:
    """The chosen collection; the first one where it is gone, or none was chosen."""
    first = collections[0] if collections else None
    return next((one for one in collections if one.id == chosen), first)


def _still_there(seat: DocumentsSeat, documents: Sequence[Document]) -> tuple[PassageHit, ...]:
    """What was found, without the documents that were removed since."""
    here = {document.id for document in documents}
    return tuple(found for found in seat.result.found if found.passage.document in here)
