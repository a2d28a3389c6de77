"""The documents of one data folder. Every method is one short transaction, and may be called from any thread.

What takes long (reading files, splitting, indexing) is done by a thread in the background (worker.py).
"""

import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from app.database import Database
from app.documents import collection_table, document_table, duplicates, passage_table, text_table
from app.documents.duplicates import COMPARED, PASTED, AddedText, PastedText
from app.documents.embedding import NO_EMBEDDER, Embedder, EmbeddingWorker
from app.documents.file_import import MAX_BYTES, PendingFiles, cleaned, require_file
from app.documents.indexing import ACTIVE_STATES
from app.documents.searcher import Searcher
from app.documents.worker import DocumentWorker
from app.errors import DocumentNotFound, DocumentUnreadable
from app.values.display_text import title_of
from app.values.document import Citation, Collection, Document, Passage, PassageHit
from app.values.text_normalisation import shown_name

UNTITLED = "Untitled"
PASTED_AT_ONCE = 1_000_000
"""Characters of a pasted text that are stored at once."""


class Documents:
    """Collections of documents, their passages, and what answers cite. Raises DocumentError and StoreError."""

    def __init__(
        self,
        database: Database,
        data_dir: Path,
        embedder: Embedder = NO_EMBEDDER,
        now: Callable[[], float] = time.time,
    ) -> None:
        """Unfinished work of the previous run is resumed. `now` returns seconds since 1970."""
        self._database = database
        self._pending = PendingFiles(data_dir)
        self._now = now
        self._searcher = Searcher(database, embedder)
        self._embedding_worker = EmbeddingWorker(database, embedder)
        self._worker = DocumentWorker(database, self._pending, self._embedding_worker.wake, now=now)
        self._embedding_worker.start()
        self._worker.start()

    @property
    def changes(self) -> int:
        """A count that grows with every change, progress included."""
        return self._database.changes

    @property
    def problem(self) -> str:
        """Why nothing can be read or indexed now, as a sentence; "" for no problem."""
        return self._worker.problem

    # Collections

    def collections(self) -> tuple[Collection, ...]:
        """All collections, by name."""
        with self._database.reading() as connection:
            return collection_table.collections(connection)

    def create(self, name: str) -> int:
        """Create a collection. Raises BadOption for a name that is taken."""
        with self._database.writing() as connection:
            return collection_table.create(connection, name, self._now())

    def create_attached(self, title: str) -> int:
        """Create a collection that belongs to a chat, named after its first document."""
        with self._database.writing() as connection:
            return collection_table.create_attached(connection, " ".join(title.split()), self._now())

    def delete_attached(self, kept: Iterable[int]) -> None:
        """Delete the collections that belong to chats, but these."""
        for unused in {one.id for one in self.collections() if one.is_attached}.difference(kept):
            self.delete(unused)

    def rename(self, collection: int, name: str) -> None:
        """Rename a collection."""
        with self._database.writing() as connection:
            collection_table.rename(connection, collection, name)

    def delete(self, collection: int) -> None:
        """Remove a collection with all its documents."""
        with self._database.writing() as connection:
            collection_table.hide(connection, collection)
            gone = [document.id for document in document_table.documents(connection, collection)]
            for document in gone:
                document_table.hide(connection, document)
            collection_table.delete_empty(connection)
        self._stop_work(gone)

    # Documents

    def documents(self, collection: int) -> tuple[Document, ...]:
        """A collection's documents in the order in which they came."""
        with self._database.reading() as connection:
            collection_table.require_collection(connection, collection)
            return document_table.documents(connection, collection)

    def document(self, document: int) -> Document:
        """One document. Raises DocumentNotFound."""
        with self._database.reading() as connection:
            return document_table.document(connection, document)

    def paste(self, collection: int, text: str, title: str = "") -> int:
        """Add a text; returns its document, which may be one with the same text, or an older version of it.

        A long text is added like a file, and `imported_into` tells what became of it. Raises DocumentUnreadable for
        an empty text, or one that is too long."""
        kept, note = cleaned(text)
        if not kept.strip():
            raise DocumentUnreadable("There is nothing to read in this text: paste some words.")
        if len(kept) > MAX_BYTES:
            raise DocumentUnreadable(
                f"This text has {len(kept):,} characters, and {MAX_BYTES:,} can be read: paste it in pieces."
            )
        typed = " ".join(title.split())
        is_typed = any(one.isprintable() and not one.isspace() for one in typed)
        pasted = PastedText(kept, typed if is_typed else title_of(kept) or UNTITLED, note)
        if len(kept) > PASTED_AT_ONCE:
            return self._paste_long(collection, pasted)
        added = AddedText(collection, pasted.title, PASTED, kept[:COMPARED], len(kept))
        older = duplicates.older_version(self._database, added)
        with self._database.writing() as connection:
            collection_table.require_collection(connection, collection)
            document = duplicates.store_pasted_text(connection, collection, pasted, older, self._now())
            is_to_do = document_table.state(connection, document) == "waiting"
        if is_to_do:
            self._worker.stop(document)  # it may be indexing the previous text
        self._worker.wake()
        return document

    def add_files(self, collection: int, paths: Sequence[Path]) -> tuple[int, ...]:
        """Add copies of files; returns their documents. Raises DocumentUnreadable before any is added."""
        for path in paths:
            require_file(path)
        return tuple(
            self._add_file(collection, path, shown_name(path.name), origin=str(path.absolute()))
            for path in paths
        )

    def add_uploads(self, collection: int, paths: Sequence[Path]) -> tuple[int, ...]:
        """Add files that a browser uploaded. Of these only the names mean anything, not the paths."""
        for path in paths:
            require_file(path)
        return tuple(self._add_file(collection, path, shown_name(path.name)) for path in paths)

    def cancel(self, document: int) -> None:
        """Stop reading or indexing a document. It can be retried."""
        with self._database.writing() as connection:
            if document_table.document(connection, document).state in ACTIVE_STATES:
                document_table.set_state(connection, document, "cancelled", "You cancelled this.")
        self._worker.stop(document)

    def again(self, document: int) -> None:
        """Retry a document that failed or was cancelled."""
        with self._database.writing() as connection:
            about = document_table.document(connection, document)
            has_file = self._pending.path(document, about.source).exists()
            if not has_file and not document_table.has_text(connection, document):
                raise DocumentUnreadable(f"The file {about.source} is no longer here: add it again.")
            document_table.set_state(connection, document, "waiting")
            document_table.set_note(connection, document, "")
        self._worker.wake()

    def remove(self, document: int) -> None:
        """Delete a document with its passages. It is hidden at once, and deleted in the background."""
        with self._database.writing() as connection:
            document_table.document(connection, document)
            document_table.hide(connection, document)
        self._stop_work([document])

    def replaced_since(self, moment: float) -> tuple[Document, ...]:
        """The documents whose text was replaced since then, in seconds since 1970; the last one last."""
        with self._database.reading() as connection:
            return document_table.replaced_since(connection, moment)

    def undo_replacement(self, document: int) -> int:
        """Give a document the text back that was replaced last; returns the new document that has the newer one.

        Raises DocumentNotFound where no older version is kept."""
        with self._database.writing() as connection:
            other = duplicates.undo_replacement(connection, document, self._now())
        self._worker.stop(document)  # it may be indexing the newer text
        self._worker.wake()
        return other

    def imported_into(self, document: int) -> int:
        """The document that has the text of an added one, after `wait`: another one for a duplicate or a new
        version.

        Only imports of this process are known."""
        return self._worker.imported_into(document)

    # What is in them

    def text(self, document: int) -> str:
        """A document's whole text; "" before it is read."""
        with self._database.reading() as connection:
            document_table.document(connection, document)
            return text_table.whole(connection, document)

    def passages(self, document: int) -> tuple[Passage, ...]:
        """A document's passages in order; () before it is ready."""
        with self._database.reading() as connection:
            if document_table.document(connection, document).state != "ready":
                return ()
            return passage_table.passages(connection, document)

    def passage(self, passage: int) -> Passage:
        """One passage. Raises DocumentNotFound."""
        with self._database.reading() as connection:
            found = passage_table.passages_of(connection, [passage])
        if not found:
            raise DocumentNotFound(passage_table.CHANGED)
        return found[0]

    def between(self, document: int, start: int, end: int) -> str:
        """The characters of a document's text from `start` to `end`; clipped to the text's end."""
        with self._database.reading() as connection:
            document_table.document(connection, document)
            return text_table.between(connection, document, start, end)

    def search(self, collections: Sequence[int], question: str, limit: int = 8) -> tuple[PassageHit, ...]:
        """The passages that match a question, best first; () when none is near enough."""
        return self._searcher.search(collections, question, limit)

    def whole(self, collections: Sequence[int], most_characters: int) -> tuple[Passage, ...]:
        """Each document as one passage, in order; () when together they are longer than this."""
        with self._database.reading() as connection:
            ready = [
                document
                for collection in collections
                for document in document_table.documents(connection, collection)
                if document.state == "ready"
            ]
            if sum(document.characters for document in ready) > most_characters:
                return ()
            return tuple(
                _as_passage(document, text_table.whole(connection, document.id)) for document in ready
            )

    def words(self, cited: Citation) -> str:
        """The words of a citation. Raises DocumentNotFound when its document was removed or has changed."""
        with self._database.reading() as connection:
            return passage_table.cited_words(connection, cited)

    def similarities(self, texts: Sequence[str], others: Sequence[str]) -> Sequence[Sequence[float]]:
        """The cosines of each text with each other one; () where there is no embedding model, or it is late."""
        return self._searcher.similarities(texts, others)

    def give_way(self, has_to_wait: Callable[[], bool]) -> None:
        """Begin no long transaction while this is true, such as while a reply is written."""
        self._worker.give_way(has_to_wait)

    # Its end

    def wait(self) -> None:
        """Return when all work is done. Raises StoreError when the database takes no more writes."""
        self._worker.wait()
        self._embedding_worker.wait()

    def close(self) -> None:
        """Stop all work; the next start resumes it. Closing twice is fine."""
        self._worker.close()
        self._embedding_worker.close()

    def _paste_long(self, collection: int, pasted: PastedText) -> int:
        """Add a text that would hold the database for too long as a file, which is imported in pieces."""
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / PASTED
            file.write_text(pasted.text, encoding="utf-8-sig", newline="")
            return self._add_file(collection, file, PASTED, title=pasted.title)

    def _add_file(self, collection: int, path: Path, name: str, title: str = "", origin: str = "") -> int:
        draft = self._pending.copy(path)
        # A path may hold bytes that are not text; two such paths must stay different.
        kept = origin.encode("utf-8", "backslashreplace").decode()
        with self._database.writing() as connection:
            collection_table.require_collection(connection, collection)
            document = document_table.add(connection, collection, title or name, name, self._now(), kept)
            self._pending.keep(draft, document, name)
        self._worker.wake()
        return document

    def _stop_work(self, documents: Sequence[int]) -> None:
        """Stop work on hidden documents, and delete their rows."""
        for document in documents:
            self._worker.stop(document)
        self._worker.wake()


def _as_passage(document: Document, text: str) -> Passage:
    return Passage(0, document.id, document.title, 0, len(text), text)
