"""The documents of one data folder. Methods use short transactions, and may be called from any thread.

Work that takes long (reading files, splitting, indexing) is done by a background thread (worker.py).
"""

import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from app.database.database import Database, Store, reads, writes, writes_now
from app.documents import document_table, duplicates, passage_table, text_table
from app.documents.document_table import StoredText
from app.documents.duplicates import COMPARED, PASTED
from app.documents.embedding import NO_EMBEDDER, Embedder, EmbeddingWorker
from app.documents.file_import import MAX_BYTES, PendingFiles, cleaned, require_file
from app.documents.hybrid_search import Searcher
from app.documents.indexing import UNTITLED
from app.documents.worker import DocumentWorker
from app.errors import DocumentUnreadable
from app.values.display_text import title_of
from app.values.document import MARGINS, UNFINISHED, Passage, PassageHit
from app.values.text_normalisation import shown_name

PASTED_AT_ONCE = 1_000_000
"""Maximum number of characters of a pasted text for one transaction; a longer text is imported like a file."""


class Documents(Store):
    """Collections of documents, their passages, and citations of them.

    Methods raise DocumentError and StoreError; `create` and `rename` raise BadOption for a bad name."""

    def __init__(
        self,
        database: Database,
        data_dir: Path,
        embedder: Embedder = NO_EMBEDDER,
        now: Callable[[], float] = time.time,
    ) -> None:
        """Starts the background threads, which resume unfinished work. `now` returns seconds since 1970.

        Raises StoreNotUsable if the folder of files to import cannot be made."""
        super().__init__(database, now)
        self._pending = PendingFiles(data_dir)
        self._cancels = Counter[int]()  # how often all documents of a collection were cancelled
        self._searcher = Searcher(database, embedder)
        self._embedding_worker = EmbeddingWorker(database, embedder)
        self._worker = DocumentWorker(database, self._pending, self._embedding_worker.wake, now=now)
        self._embedding_worker.start()
        self._worker.start()

    @property
    def problem(self) -> str:
        """The error that blocks all work, as a sentence; "" if there is none."""
        return self._worker.problem

    # Collections

    collections = reads(document_table.collections)
    create = writes_now(document_table.create_collection)
    create_attached = writes_now(document_table.create_attached)
    rename = writes(document_table.rename_collection)

    def delete_attached(self, kept: Iterable[int]) -> None:
        """Erases the collections that belong to chats, except those in `kept`, and everything that was removed."""
        for unused in {one.id for one in self.collections() if one.is_attached}.difference(kept):
            self.delete(unused)
        self.erase()

    def delete(self, collection: int) -> tuple[int, ...]:
        """Hides a collection with all its documents. Returns the documents, for `restore`."""
        with self.database.writing() as connection:
            hidden = document_table.hide_collection(connection, collection)
        self._stop_work(hidden)
        return hidden

    # Documents

    documents = reads(document_table.documents)
    document = reads(document_table.document)
    replaced_since = reads(document_table.replaced_since)

    def paste(self, collection: int, text: str, title: str = "") -> int:
        """Adds a text. Returns its document: a new document, or an existing document that has the same text or an
        older version of the text.

        A long text is added like a file, and may later be merged into another document: see `imported_into`. Raises
        DocumentUnreadable if the text is blank or too long."""
        kept, note = cleaned(text)
        if not kept.strip():
            raise DocumentUnreadable("There is nothing to read in this text: paste some words.")
        if len(kept) > MAX_BYTES:
            raise DocumentUnreadable(
                f"This text has {len(kept):,} characters, and at most {MAX_BYTES:,} can be read: paste it in "
                "pieces."
            )
        typed = " ".join(title.split())
        is_typed = any(one.isprintable() and not one.isspace() for one in typed)
        name = typed if is_typed else title_of(kept) or UNTITLED
        if len(kept) > PASTED_AT_ONCE:
            with tempfile.TemporaryDirectory() as folder:
                file = Path(folder) / PASTED
                file.write_text(kept, encoding="utf-8-sig", newline="")
                return self._add_file(collection, file, PASTED, title=name)
        added = StoredText(0, name, PASTED, characters=len(kept))
        older = duplicates.older_version(self.database, collection, added, kept[:COMPARED])
        with self.database.writing() as connection:
            document_table.require_collection(connection, collection)
            document = duplicates.store_pasted_text(
                connection, collection, added, kept, note, older, self.now()
            )
            is_waiting = document_table.version(connection, document).state == "waiting"
        if is_waiting:
            self._worker.stop(document)  # the worker may be indexing the previous text
        self._worker.wake()
        return document

    def add_files(self, collection: int, paths: Sequence[Path]) -> tuple[int, ...]:
        """Adds copies of files. Returns their documents; `cancel_all` leaves out the files that were not yet added.

        Adds none and raises DocumentUnreadable if a path is not a file or a file is too large. If copying a file
        fails, raises the error of `PendingFiles.copy`; the files before it are added."""
        return self._add_files(collection, paths, [str(path.absolute()) for path in paths])

    def add_uploads(self, collection: int, paths: Sequence[Path]) -> tuple[int, ...]:
        """Adds files that a browser uploaded, like `add_files`, but does not store their paths."""
        return self._add_files(collection, paths, [""] * len(paths))

    def cancel(self, *documents: int) -> None:
        """Stops reading or indexing documents, which `again` can restart."""
        with self.database.writing() as connection:
            for document in documents:
                if document_table.version(connection, document).state in UNFINISHED:
                    document_table.set_state(connection, document, "cancelled", "You cancelled this.")
        self._stop_work(documents)

    def cancel_all(self, collection: int) -> None:
        """Stops reading, indexing and adding documents of a collection."""
        self._cancels[collection] += 1
        self.cancel(*(one.id for one in self.documents(collection)))

    def again(self, document: int) -> None:
        """Retries a document that failed or was cancelled.

        Raises DocumentUnreadable if neither its text nor its file is here."""
        with self.database.writing() as connection:
            about = document_table.document(connection, document)
            has_file = self._pending.path(document, about.source).exists()
            if not has_file and document_table.version(connection, document).digest is None:
                raise DocumentUnreadable(f"The file {about.source} is no longer here: add it again.")
            document_table.set_state(connection, document, "waiting")
            document_table.update(connection, document, note="")
        self._worker.wake()

    def remove(self, document: int) -> None:
        """Hides a document with its passages and older versions, until it is restored or erased."""
        with self.database.writing() as connection:
            document_table.document(connection, document)
            document_table.hide(connection, document)
        self._stop_work([document])

    def restore(self, documents: Iterable[int], collection: int = 0) -> None:
        """Restores hidden documents and, unless `collection` is 0, this hidden collection.

        Raises DocumentNotFound, and restores nothing, if any of them was erased."""
        with self.database.writing() as connection:
            if collection:
                document_table.show_collection(connection, collection)
            for document in documents:
                document_table.show(connection, document)
        self._worker.wake()

    def erase(self) -> None:
        """Makes the worker delete all removed documents and collections, which `restore` then cannot find."""
        with self.database.writing() as connection:
            is_any = document_table.claim(connection)
        if is_any:
            self._worker.wake()

    def undo_replacement(self, document: int) -> int:
        """Restores a document's previous text. Returns a new document with the text that had replaced it."""
        with self.database.writing() as connection:
            other = duplicates.undo_replacement(connection, document, self.now())
        self._worker.stop(document)  # the worker may be indexing the newer text
        self._worker.wake()
        return other

    def imported_into(self, document: int) -> int:
        """Returns the document that has the text of an added document after its import.

        For a duplicate or a new version this is an older document. Only imports of this process are known."""
        return self._worker.imported_into(document)

    # Contents

    passages = reads(passage_table.passages)
    passage = reads(passage_table.passage)
    words = reads(passage_table.cited_words)

    def text(self, document: int) -> str:
        """Returns a document's text, as far as it has been read."""
        with self.database.reading() as connection:
            document_table.document(connection, document)
            return text_table.whole(connection, document)

    def between(self, document: int, start: int, end: int) -> str:
        """Returns the characters of a document's text from `start` to `end`, clipped to the text's end."""
        with self.database.reading() as connection:
            document_table.document(connection, document)
            return text_table.between(connection, document, start, end)

    def search(self, collections: Sequence[int], question: str, limit: int = 8) -> tuple[PassageHit, ...]:
        """Finds at most `limit` passages that match a question, best first; () if none is near enough."""
        return self._searcher.search(collections, question, limit)

    def whole(self, collections: Sequence[int], most_characters: int) -> tuple[Passage, ...]:
        """Returns each ready document as one passage; () if together they are longer than `most_characters`.

        The menus and margins of web pages are left out."""
        with self.database.reading() as connection:
            ready = [
                document
                for collection in collections
                for document in document_table.documents_of(connection, collection)
                if document.state == "ready"
            ]
            if sum(document.characters for document in ready) > most_characters:
                return ()
            texts = [text_table.whole(connection, one.id).partition(f"\n\n# {MARGINS}\n")[0] for one in ready]
        return tuple(
            Passage(0, document.id, document.title, 0, len(text), text)
            for document, text in zip(ready, texts, strict=True)
        )

    def similarities(self, texts: Sequence[str], others: Sequence[str]) -> Sequence[Sequence[float]]:
        """Returns the similarity of each of `texts` to each of `others`; no rows if no embedding model answers in
        time."""
        return self._searcher.similarities(texts, others)

    def give_way(self, has_to_wait: Callable[[], bool]) -> None:
        """Lets the worker merge the index of words only while `has_to_wait()` is false, because a merge has long
        transactions, for which other threads would wait."""
        self._worker.give_way(has_to_wait)

    # Closing

    def wait(self) -> None:
        """Waits until all work is done, except the work of a missing embedding model. Raises StoreError."""
        self._worker.wait()
        self._embedding_worker.wait()

    def close(self) -> None:
        """Stops all work; the next start resumes it. It is safe to call this twice."""
        self._worker.close()
        self._embedding_worker.close()

    def _add_files(self, collection: int, paths: Sequence[Path], origins: Sequence[str]) -> tuple[int, ...]:
        for path in paths:
            require_file(path)
        before, added = self._cancels[collection], list[int]()
        for path, origin in zip(paths, origins, strict=True):
            added.append(self._add_file(collection, path, shown_name(path.name), origin=origin))
            if self._cancels[collection] != before:
                self.cancel(added[-1])  # it may have been added after the others were cancelled
                break
        return tuple(added)

    def _add_file(self, collection: int, path: Path, name: str, title: str = "", origin: str = "") -> int:
        draft = self._pending.copy(path)
        # A path may have bytes that are not UTF-8; two such paths must stay different.
        kept = origin.encode("utf-8", "backslashreplace").decode()
        with self.database.writing() as connection:
            document_table.require_collection(connection, collection)
            document = document_table.add(connection, collection, title or name, name, self.now(), kept)
            self._pending.keep(draft, document, name)
        self._worker.wake()
        return document

    def _stop_work(self, documents: Sequence[int]) -> None:
        for document in documents:
            self._worker.stop(document)
