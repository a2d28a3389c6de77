"""The documents of one data folder, for all threads: what is asked takes one short transaction, and what takes long
(reading files, cutting, writing words) is done by a thread beside (indexing.py).
"""

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from app.database import Database
from app.display_text import title_of
from app.document_messages import Citation, Collection, Document, Passage, PassageHit
from app.documents import citing, collections, intake, leaving, passage_rows, records, texts
from app.documents.cleaning import cleaned
from app.documents.embedding import NO_EMBEDDER, Embeds
from app.documents.inbox import LARGEST, Inbox, require_file
from app.documents.indexing import Indexer
from app.documents.intake import Pasted
from app.documents.search.searching import Searcher
from app.documents.vectorising import Vectoriser
from app.errors import DocumentNotFound, DocumentUnreadable
from app.text_normalisation import shown_name

UNTITLED = "Untitled"


class Documents:
    """Collections of documents, their passages, and what answers cite. Raises DocumentError and StoreError."""

    def __init__(
        self,
        database: Database,
        data_dir: Path,
        embedder: Embeds = NO_EMBEDDER,
        now: Callable[[], float] = time.time,
    ) -> None:
        """What an earlier run left undone goes on at once. `now` are seconds since 1970."""
        self._database = database
        self._inbox = Inbox(data_dir)
        self._now = now
        self._searcher = Searcher(database, embedder)
        self._vectoriser = Vectoriser(database, embedder)
        self._indexer = Indexer(database, self._inbox, self._vectoriser.wake)
        self._vectoriser.start()
        self._indexer.start()

    @property
    def changes(self) -> int:
        """A count that differs once anything was changed, progress included."""
        return self._database.changes

    @property
    def problem(self) -> str:
        """Why nothing is read or indexed now, as a sentence; "" while nothing stands in the way."""
        return self._indexer.problem

    # Collections

    def collections(self) -> tuple[Collection, ...]:
        """All collections, by name."""
        with self._database.reading() as connection:
            return collections.collections(connection)

    def create(self, name: str) -> int:
        """Begin a collection. Raises BadOption for a name that is taken."""
        with self._database.writing() as connection:
            return collections.create(connection, name, self._now())

    def rename(self, collection: int, name: str) -> None:
        """Call a collection otherwise."""
        with self._database.writing() as connection:
            collections.rename(connection, collection, name)

    def delete(self, collection: int) -> None:
        """Remove a collection with all its documents."""
        with self._database.writing() as connection:
            collections.hide(connection, collection)
            gone = [document.id for document in records.documents(connection, collection)]
            for document in gone:
                leaving.hide(connection, document)
            collections.sweep(connection)
        self._let_go(gone)

    # Documents

    def documents(self, collection: int) -> tuple[Document, ...]:
        """A collection's documents in the order in which they came."""
        with self._database.reading() as connection:
            collections.require_collection(connection, collection)
            return records.documents(connection, collection)

    def document(self, document: int) -> Document:
        """One document. Raises DocumentNotFound."""
        with self._database.reading() as connection:
            return records.document(connection, document)

    def paste(self, collection: int, text: str, title: str = "") -> int:
        """Put in a text; its document: the one that is there for a text or a title that is, or an older form of it.

        Raises DocumentUnreadable for a text with nothing in it, or too much."""
        kept, note = cleaned(text)
        if not kept.strip():
            raise DocumentUnreadable("There is nothing to read in this text: paste some words.")
        if len(kept) > LARGEST:
            raise DocumentUnreadable(
                f"This text has {len(kept):,} characters, and {LARGEST:,} can be read: paste it in pieces."
            )
        typed = " ".join(title.split())
        pasted = Pasted(kept, typed or title_of(kept) or UNTITLED, not typed, note)
        with self._database.writing() as connection:
            collections.require_collection(connection, collection)
            document = intake.paste(connection, collection, pasted, self._now())
            is_to_do = records.state(connection, document) == "waiting"
        if is_to_do:
            self._indexer.leave(document)  # it may be at the text that was there before
        self._indexer.wake()
        return document

    def add_files(self, collection: int, paths: Sequence[Path]) -> tuple[int, ...]:
        """Take copies of files to be read; their documents. Raises for the first that is no file, before any."""
        for path in paths:
            require_file(path)
        return tuple(self._add_file(collection, path, str(path.absolute())) for path in paths)

    def add_uploads(self, collection: int, paths: Sequence[Path]) -> tuple[int, ...]:
        """Likewise for copies that a browser made: where those lie says nothing, only their names do."""
        for path in paths:
            require_file(path)
        return tuple(self._add_file(collection, path, "") for path in paths)

    def cancel(self, document: int) -> None:
        """Leave off reading or indexing a document; it can be tried again."""
        with self._database.writing() as connection:
            is_busy = records.document(connection, document).state in ("waiting", "reading", "indexing")
            if is_busy:
                records.set_state(connection, document, "cancelled", "You cancelled this.")
        self._indexer.leave(document)

    def again(self, document: int) -> None:
        """Try once more what failed or was cancelled."""
        with self._database.writing() as connection:
            about = records.document(connection, document)
            has_file = self._inbox.path(document, about.source).exists()
            if not has_file and not records.has_text(connection, document):
                raise DocumentUnreadable(f"The file {about.source} is no longer here: add it again.")
            records.set_state(connection, document, "waiting")
            records.set_note(connection, document, "")
        self._indexer.wake()

    def remove(self, document: int) -> None:
        """Delete a document and all that was made of it. It is out of sight at once, and gone
        a little later."""
        with self._database.writing() as connection:
            records.document(connection, document)
            leaving.hide(connection, document)
        self._let_go([document])

    def became(self, document: int) -> int:
        """What a document that was put in is now, once it was waited for: a text or a file that was here before
        is the document that it was then. A process beside that read it is not asked."""
        return self._indexer.became(document)

    # What is in them

    def text(self, document: int) -> str:
        """A document's whole text; "" for one that has not been read."""
        with self._database.reading() as connection:
            records.document(connection, document)
            return texts.whole(connection, document)

    def passages(self, document: int) -> tuple[Passage, ...]:
        """A document's passages in order; () before it is ready."""
        with self._database.reading() as connection:
            if records.document(connection, document).state != "ready":
                return ()
            return passage_rows.passages(connection, document)

    def passage(self, passage: int) -> Passage:
        """One passage. Raises DocumentNotFound for one that its document has no more."""
        with self._database.reading() as connection:
            found = passage_rows.passages_of(connection, [passage])
        if not found:
            raise DocumentNotFound(citing.CHANGED)
        return found[0]

    def between(self, document: int, start: int, end: int) -> str:
        """The characters of a document's text from `start` to `end`; what lies behind its end is left out."""
        with self._database.reading() as connection:
            records.document(connection, document)
            return texts.between(connection, document, start, end)

    def search(self, collections: Sequence[int], question: str, limit: int = 8) -> tuple[PassageHit, ...]:
        """The passages that are nearest to a question, best first; () when nothing is near enough."""
        return self._searcher.search(collections, question, limit)

    def whole(self, collections: Sequence[int], most_characters: int) -> tuple[Passage, ...]:
        """Each document as one passage, in order; () when together they are longer than this."""
        with self._database.reading() as connection:
            ready = [
                document
                for collection in collections
                for document in records.documents(connection, collection)
                if document.state == "ready"
            ]
            if sum(document.characters for document in ready) > most_characters:
                return ()
            return tuple(_as_passage(document, texts.whole(connection, document.id)) for document in ready)

    def words(self, cited: Citation) -> str:
        """What an answer cites. Raises DocumentNotFound when its document was removed, or says this no more."""
        with self._database.reading() as connection:
            return citing.words(connection, cited)

    # Its end

    def wait(self) -> None:
        """Return once nothing is to be done any more. Raises StoreError when the file takes no more."""
        self._indexer.wait()
        self._vectoriser.wait()

    def close(self) -> None:
        """Stop where it is; the next start goes on there. Closing twice does no harm."""
        self._indexer.close()
        self._vectoriser.close()

    def _add_file(self, collection: int, path: Path, origin: str) -> int:
        draft, name = self._inbox.copy(path), shown_name(path.name)
        # A path may hold bytes that are no text; two such paths must not become one.
        kept = origin.encode("utf-8", "backslashreplace").decode()
        with self._database.writing() as connection:
            collections.require_collection(connection, collection)
            document = records.add(connection, collection, name, name, self._now(), kept)
            self._inbox.keep(draft, document, name)
        self._indexer.wake()
        return document

    def _let_go(self, documents: Sequence[int]) -> None:
        """Have nobody work on hidden documents any more, and their rows deleted."""
        for document in documents:
            self._indexer.leave(document)
        self._indexer.wake()


def _as_passage(document: Document, text: str) -> Passage:
    return Passage(0, document.id, document.title, 0, len(text), text)
