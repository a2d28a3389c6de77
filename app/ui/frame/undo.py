"""Deletions that can be undone: for a minute what was deleted is only hidden, and then it is erased."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from time import monotonic

from app.documents.documents import Documents
from app.errors import AppError

UNDO_SECONDS = 60.0
"""Seconds for which a deletion can be undone."""


@dataclass(frozen=True, slots=True)
class Offer:
    """An offer to undo something: a sentence about it, when it was done, and what restores it. `document` is the id
    of a document whose text was replaced, or 0."""

    message: str
    at: float
    undo: Callable[[], object] = field(default=lambda: None, compare=False)
    document: int = 0


class Deletions:
    """The deletions of all pages, until they are undone or erased. Can be used from any thread."""

    def __init__(self, now: Callable[[], float] = monotonic) -> None:
        self.now = now
        self._offers: list[Offer] = []
        self._lock = threading.RLock()

    def delete(self, message: str, action: Callable[[], object], undo: Callable[[], object]) -> None:
        """Run the action, which hides or removes something, and offer to undo it. Raises what the action raises."""
        with self._lock:  # so that `expire` does not erase what this action has just hidden
            action()
            self._offers.append(Offer(message, self.now(), undo))

    def newest(self) -> Offer | None:
        """Return the offer to undo the newest deletion; None if no deletion can still be undone."""
        with self._lock:
            newest = self._offers[-1] if self._offers else None
            return newest if newest and self.now() - newest.at <= UNDO_SECONDS else None

    def undo(self) -> None:
        """Restore what was deleted last, and remove the offer. Raises AppError if there is nothing to undo."""
        with self._lock:
            if not self._offers:
                raise AppError("There is nothing to undo.")
            self._offers.pop().undo()

    def expire(self, erase: Callable[[], object]) -> bool:
        """Call `erase` and forget all offers, if there are offers and none can still be undone.

        Returns whether `erase` was called."""
        with self._lock:
            has_expired = bool(self._offers) and self.newest() is None
            if has_expired:
                erase()
                self._offers.clear()
            return has_expired


def remove_document(
    documents: Documents, deletions: Deletions, document: int, undone: Callable[[], object] = lambda: None
) -> None:
    """Remove a document; Undo restores it, then calls `undone`."""

    def restore() -> None:
        documents.restore([document])
        undone()

    title = documents.document(document).title
    deletions.delete(f"“{title}” was removed.", lambda: documents.remove(document), restore)
