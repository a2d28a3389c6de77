"""Renders the toast that offers to undo the last deletion, or the last replacement of a document, for a minute."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from time import monotonic, time

from app.documents import Documents
from app.ui.chat.state import ChatState
from app.ui.frame.page_stream import Parts
from app.ui.frame.templates import render

UNDO_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Offer:
    """What can be undone: the sentence about it, when it was done, and the document that was replaced, or 0."""

    message: str
    at: float
    document: int = 0


class UndoRenderer:
    """Renders the toast of one page."""

    def __init__(
        self,
        state: ChatState,
        documents: Documents,
        now: Callable[[], float] = monotonic,
        clock: Callable[[], float] = time,
    ) -> None:
        """`now` tells when a page deleted something, `clock` when a document was replaced."""
        self._state = state
        self._documents = documents
        self._now = now
        self._clock = clock
        self._shown: Offer | None = None
        self._parts: Parts = {"undo": ""}

    def render(self) -> Parts:
        """The toast's part; the same object while nothing changed."""
        ages = {offer: age for offer, age in self._offers() if age <= UNDO_SECONDS}
        newest = min(ages, key=lambda offer: ages[offer], default=None)
        if newest != self._shown:
            self._shown = newest
            self._parts = {"undo": render("undo.html", offer=newest) if newest else ""}
        return self._parts

    def _offers(self) -> Iterator[tuple[Offer, float]]:
        """What can be undone, and its age in seconds."""
        if self._state.deletions:
            last = self._state.deletions[-1]
            yield Offer(last.message, last.at), self._now() - last.at
        clock = self._clock()
        for document in self._documents.replaced_since(clock - UNDO_SECONDS)[-1:]:
            message = f"\u201c{document.title}\u201d was replaced by a newer version. Undo keeps both."
            yield Offer(message, document.replaced, document.id), clock - document.replaced
