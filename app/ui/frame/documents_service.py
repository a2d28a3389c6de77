"""What the page needs of the documents."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Protocol

from app.values.document import Citation, Collection, Document, Passage, PassageHit


class DocumentsService(Protocol):
    """The documents. Files are read and indexed in the background. What cannot be done raises an AppError."""

    @property
    def changes(self) -> int:
        """Grows with every change, progress included."""

    @property
    def problem(self) -> str:
        """Why nothing can be read or indexed now; "" if nothing is wrong."""

    def collections(self) -> tuple[Collection, ...]:
        """All collections."""

    def create(self, name: str) -> int:
        """Create a collection. Returns its id."""

    def create_attached(self, title: str) -> int:
        """Create a collection that belongs to a chat. Returns its id."""

    def delete_attached(self, kept: Iterable[int]) -> None:
        """Delete the collections that belong to chats, but these."""

    def rename(self, collection: int, name: str) -> None:
        """Rename a collection."""

    def delete(self, collection: int) -> None:
        """Delete a collection with its documents."""

    def documents(self, collection: int) -> tuple[Document, ...]:
        """The documents of a collection."""

    def paste(self, collection: int, text: str, title: str = "") -> int:
        """Add a text. Returns the id of its document. Without a title one is guessed."""

    def add_uploads(self, collection: int, paths: Sequence[Path]) -> tuple[int, ...]:
        """Add files, which are copied before this returns. Returns the ids of their documents."""

    def cancel(self, document: int) -> None:
        """Stop reading or indexing a document."""

    def again(self, document: int) -> None:
        """Read and index a document again after it failed or was cancelled."""

    def remove(self, document: int) -> None:
        """Remove a document, its text included."""

    def undo_replacement(self, document: int) -> int:
        """Bring back the text that a document had before. Returns the id of a new document with the newer one."""

    def replaced_since(self, moment: float) -> tuple[Document, ...]:
        """The documents whose text was replaced since then, in seconds since 1970; the last one last."""

    def document(self, document: int) -> Document:
        """One document. Raises DocumentNotFound."""

    def passage(self, passage: int) -> Passage:
        """One passage. Raises DocumentNotFound."""

    def between(self, document: int, start: int, end: int) -> str:
        """The characters of a document's text from `start` to `end`. Raises DocumentNotFound."""

    def words(self, cited: Citation) -> str:
        """The text that an answer cites. Raises DocumentNotFound if the document is gone or says something else."""

    def search(self, collections: Sequence[int], question: str, limit: int = 8) -> tuple[PassageHit, ...]:
        """The passages that match a question best, best first; none if nothing matches well enough."""


ListCollections = Callable[[], tuple[Collection, ...]]
"""The collections that the Documents view lists."""


def listed_collections(
    documents: DocumentsService, used: Callable[[], frozenset[int]]
) -> tuple[Collection, ...]:
    """All but those that belong to deleted chats, which Undo brings back; `used` are those that chats search."""
    found = documents.collections()
    if not any(one.is_attached for one in found):
        return found
    kept = used()
    return tuple(one for one in found if one.id in kept or not one.is_attached)
