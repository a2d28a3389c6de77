"""The thread that imports, indexes and deletes documents.

The queue is the documents' state in the database, so the next start continues after a kill. Each document is
processed under a file lock, because the app and a command may both run this thread."""

import logging
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from time import sleep, time

from filelock import FileLock, Timeout

from app.database.database import Database
from app.documents import document_table, file_import, indexing, passage_table
from app.documents.file_import import PendingFiles
from app.documents.indexing import Task, TaskCancelled
from app.errors import AppError, StoreError, StoreFull, StoreNotUsable, first_line
from app.values.document import UNFINISHED

POLL_SECONDS = 0.5
"""Seconds between checks of what another thread or process may change."""

RETRY_SECONDS = 30.0
"""Seconds between checks for work that a killed command has left, or that an error has blocked."""

PAUSE_SECONDS = 0.01
"""Seconds between two transactions of a deletion, so that other threads get the database."""

log = logging.getLogger(__name__)


class DocumentWorker:
    """Processes the waiting documents of a database, one at a time."""

    def __init__(
        self,
        database: Database,
        pending: PendingFiles,
        changed: Callable[[], None],
        retry_seconds: float = RETRY_SECONDS,
        now: Callable[[], float] = time,
    ) -> None:
        """Prepares the thread. Makes the folder of `pending`. Raises StoreNotUsable.

        `changed` is called after each import or deletion; `now` returns seconds since 1970."""
        self._database = database
        self._pending = pending
        self._on_change = changed
        self._retry_seconds = retry_seconds
        self._now = now
        self._lock = FileLock(pending.lock_file())
        self._changed = threading.Condition()
        self._is_awake = True
        self._is_closing = False
        self._is_busy = False
        self._error: StoreError | None = None
        self._task: Task | None = None
        self._imported_into: dict[int, int] = {}
        self._has_to_wait: Callable[[], bool] = lambda: False
        self._thread = threading.Thread(target=self._run, name="documents", daemon=True)

    @property
    def problem(self) -> str:
        """The error that blocks all work, as a sentence; "" if there is none."""
        return str(self._error or "")

    def give_way(self, has_to_wait: Callable[[], bool]) -> None:
        self._has_to_wait = has_to_wait

    def start(self) -> None:
        self._thread.start()

    def wake(self) -> None:
        """Makes the thread check for work now, even after an error."""
        with self._changed:
            self._is_awake, self._error = True, None
            self._changed.notify_all()

    def stop(self, document: int) -> None:
        """Stops work on this document, if it is the current one."""
        task = self._task
        if task and task.document == document:
            task.stop()

    def imported_into(self, document: int) -> int:
        return self._imported_into.get(document, document)

    def wait(self) -> None:
        """Waits until all work is done or the worker is closed. Raises StoreError if an error blocks the work."""
        while self._is_busy or self._has_work():
            with self._changed:
                if self._error:
                    raise self._error
                if self._is_closing:
                    return
                self._is_awake = True  # another process may have left work
                self._changed.notify_all()
                self._changed.wait(POLL_SECONDS)

    def close(self) -> None:
        with self._changed:
            self._is_closing = True
            self._changed.notify_all()
        if task := self._task:
            task.stop()
        self._thread.join()

    def _run(self) -> None:
        while not self._is_closing:
            try:
                is_done = not self._work()
                self._error = None
            except StoreError as error:  # nothing can be written, not even that a document failed
                self._error, is_done = error, True
            except OSError as error:
                self._error, is_done = self._pending.not_usable(error), True
            if self._error:
                log.warning("documents wait: %s", self._error)
            if is_done:
                with self._changed:
                    self._changed.notify_all()
                    if not (self._is_awake or self._is_closing):
                        self._changed.wait(self._retry_seconds)
                    self._is_awake = False

    def _has_work(self) -> bool:
        with self._database.reading() as connection:
            return bool(document_table.leaving(connection) or document_table.next_busy(connection))

    def _work(self) -> bool:
        """Deletes leaving documents, or else processes the oldest active one. Returns whether there was work."""
        self._is_busy = True  # set before the check, so that `wait` never misses work in between
        try:
            if not self._has_work():
                return False
            # A timeout means that another process works on documents. The next call tries again.
            with suppress(Timeout), self._lock.acquire(POLL_SECONDS):
                with self._database.writing() as connection:
                    self._pending.keep_only(
                        document_table.unread(connection), document_table.last(connection)
                    )
                    leaving = document_table.leaving(connection)
                    document = document_table.next_busy(connection)
                if leaving:
                    self._delete(leaving)
                elif document:
                    self._import_and_index(document)
                self._on_change()
            return True
        finally:
            self._is_busy = False

    def _delete(self, gone: Sequence[int]) -> None:
        """Deletes the contents of these documents in short transactions, merges the full-text index, and then
        deletes their rows in the table of documents."""
        is_more = True
        while is_more and not self._is_closing:
            with self._database.writing() as connection:
                is_more = indexing.delete_some(connection)
            sleep(PAUSE_SECONDS)
        self._merge_words()
        if not self._is_closing:
            with self._database.writing() as connection:
                indexing.delete_empty(connection, gone)
            self._database.checkpoint()

    def _merge_words(self) -> None:
        is_first = has_more = True
        while has_more and not self._is_closing:
            # Even a small merge makes FTS5 read all deleted words, which takes long.
            if self._has_to_wait():
                sleep(POLL_SECONDS)
                continue
            with self._database.writing() as connection:
                has_more = passage_table.merge_words(connection, is_first)
            is_first = False
            sleep(PAUSE_SECONDS)

    def _import_and_index(self, document: int) -> None:
        task = self._task = Task(self._database, document)
        try:
            if not self._is_closing:
                stored_in = file_import.import_file(task, self._pending, self._now())
                if stored_in == document:
                    indexing.index(task)
                else:
                    self._imported_into[document] = stored_in
        except TaskCancelled:
            pass  # the document's state in the database decides what happens next
        except (StoreNotUsable, StoreFull):
            raise  # not the document's fault, so it keeps its state and is retried
        except AppError as error:
            self._fail(document, str(error))
        except Exception as error:
            log.exception("document %d", document)
            self._fail(
                document, f"Something went wrong inside Foresight ({first_line(error)}): try it again."
            )
        finally:
            self._task = None

    def _fail(self, document: int, sentence: str) -> None:
        with self._database.writing() as connection:
            if document_table.version(connection, document).state in UNFINISHED:
                document_table.set_state(connection, document, "failed", sentence)
