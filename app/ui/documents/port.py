"""What the window needs of documents."""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from app.document_messages import Citation, Collection, Document, Passage, PassageHit


class Documents(Protocol):
    """The documents. Reading and indexing wait for nobody here; what cannot be done raises an AppError."""

    @property
    def changes(self) -> int:
        """Counts up whenever a page should look again, progress included."""

    @property
    def problem(self) -> str:
        """Why nothing is read or indexed now; "" while nothing stands in the way."""

    def collections(self) -> tuple[Collection, ...]:
        """The collections there are."""

    def create(self, name: str) -> int:
        """Make a collection; its id."""

    def rename(self, collection: int, name: str) -> None:
        """Give a collection another name."""

    def delete(self, collection: int) -> None:
        """Delete a collection with its documents."""

    def documents(self, collection: int) -> tuple[Document, ...]:
        """The documents of a collection."""

    def paste(self, collection: int, text: str, title: str = "") -> int:
        """Take in a text; the id of its document. Without a title one is guessed."""

    def add_uploads(self, collection: int, paths: Sequence[Path]) -> tuple[int, ...]:
        """Take in files, which are copied before this returns; the ids of their documents."""

    def cancel(self, document: int) -> None:
        """Stop reading or indexing a document."""

    def again(self, document: int) -> None:
        """Try once more what failed or was cancelled."""

    def remove(self, document: int) -> None:
        """Remove a document, its text included."""

    def document(self, document: int) -> Document:
        """One document. Raises DocumentNotFound."""

    def passage(self, passage: int) -> Passage:
        """One passage. Raises DocumentNotFound."""

    def between(self, document: int, start: int, end: int) -> str:
        """The characters of a document's text from `start` to `end`. Raises DocumentNotFound."""

    def words(self, cited: Citation) -> str:
        """What an answer cites. Raises DocumentNotFound when it has gone, or is no longer said."""

    def search(self, collections: Sequence[int], question: str, limit: int = 8) -> tuple[PassageHit, ...]:
        """The passages nearest to a question, best first; none when nothing is near enough."""
