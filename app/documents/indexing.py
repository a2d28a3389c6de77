"""The thread that reads, cuts and writes. What is to be done stands in the database, so a kill loses nothing.

    waiting --> reading --> (waiting) --> indexing --> ready        the longest waiting first
       leaving --> gone                                             before all others

Each job is done under a lock that all processes on the data folder share: the app and a command may both have a
thread here, and take turns.
"""

import logging
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from time import sleep

from filelock import FileLock, Timeout

from app.database import Database
from app.documents import filing, filling, leaving, passage_rows, records
from app.documents.inbox import Inbox
from app.documents.tasks import WANTED, LeftOff, Task
from app.errors import AppError, StoreError, StoreFull, StoreNotUsable, first_line

PATIENCE = 0.5
"""Seconds between looks at what another process does."""

LOOK_AGAIN = 30.0
"""Seconds until the next look at what a command that was killed left, and at a file that another program held."""

BREATH = 0.01
"""Seconds between transactions that have no other work between them: who waits for the database has it then."""

log = logging.getLogger(__name__)


class Indexer:
    """Works off what waits in a database, a document at a time."""

    def __init__(
        self, database: Database, inbox: Inbox, changed: Callable[[], None], look_again: float = LOOK_AGAIN
    ) -> None:
        """`changed` is called when a job is done."""
        self._database = database
        self._inbox = inbox
        self._tell_changed = changed
        self._look_again = look_again
        self._lock = FileLock(inbox.lock_file())
        self._changed = threading.Condition()
        self._is_awake = True
        self._is_closing = False
        self._is_busy = False
        self._error: StoreError | None = None
        self._task: Task | None = None
        self._became: dict[int, int] = {}
        self._thread = threading.Thread(target=self._run, name="documents", daemon=True)

    @property
    def problem(self) -> str:
        """What stands in the way of all work now; "" for nothing."""
        return str(self._error or "")

    def start(self) -> None:
        """Take up what is to be done."""
        self._thread.start()

    def wake(self) -> None:
        """There is something to do."""
        with self._changed:
            self._is_awake, self._error = True, None
            self._changed.notify_all()

    def leave(self, document: int) -> None:
        """Leave off this document, if it is the one."""
        task = self._task
        if task and task.document == document:
            task.stop()

    def became(self, document: int) -> int:
        """The document that this one was read into; itself where it is one of its own."""
        return self._became.get(document, document)

    def wait(self) -> None:
        """Return once nothing is to be done. Raises StoreError when nothing can be."""
        while self._is_busy or self._has_work():
            with self._changed:
                if self._error:
                    raise self._error
                if self._is_closing:
                    return
                self._is_awake = True  # what another process left undone is ours to do
                self._changed.notify_all()
                self._changed.wait(PATIENCE)

    def close(self) -> None:
        """Leave off, and end the thread."""
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
            except StoreError as error:  # the file takes nothing more, not even that something failed
                self._error, is_done = error, True
            except OSError as error:
                self._error, is_done = self._inbox.not_usable(error), True
            if self._error:
                log.warning("documents wait: %s", self._error)
            if is_done:
                self._sleep()

    def _sleep(self) -> None:
        with self._changed:
            self._changed.notify_all()
            if not (self._is_awake or self._is_closing):
                self._changed.wait(self._look_again)
            self._is_awake = False

    def _has_work(self) -> bool:
        with self._database.reading() as connection:
            return bool(records.leaving(connection) or records.next_busy(connection))

    def _work(self) -> bool:
        """Do one job; whether there was one."""
        self._is_busy = True  # said first, so that nobody finds neither this nor work
        try:
            if not self._has_work():
                return False
            with suppress(Timeout), self._lock.acquire(PATIENCE):  # another process is at it: look again
                self._do_next()
                self._tell_changed()
            return True
        finally:
            self._is_busy = False

    def _do_next(self) -> None:
        with self._database.writing() as connection:
            self._inbox.keep_only(records.unread(connection))
            gone, document = records.leaving(connection), records.next_busy(connection)
        if gone:
            self._free(gone)
        elif document:
            self._ingest(document)

    def _free(self, gone: Sequence[int]) -> None:
        """Delete what was made of these documents, and those that are hidden meanwhile."""
        is_more = True
        while is_more and not self._is_closing:
            with self._database.writing() as connection:
                is_more = leaving.free(connection)
            sleep(BREATH)
        self._merge_words()
        if not self._is_closing:
            with self._database.writing() as connection:
                leaving.finish(connection, gone)
            self._database.checkpoint()

    def _merge_words(self) -> None:
        is_first = has_more = True
        while has_more and not self._is_closing:
            with self._database.writing() as connection:
                has_more = passage_rows.merge_words(connection, is_first)
            is_first = False
            sleep(BREATH)

    def _ingest(self, document: int) -> None:
        task = self._task = Task(self._database, document)
        try:
            if not self._is_closing:
                settled = filing.file(task, self._inbox)
                if settled == document:
                    filling.index(task)
                else:
                    self._became[document] = settled
        except LeftOff:
            pass  # what is to become of it stands in the database
        except (StoreNotUsable, StoreFull):
            raise  # not the document's fault, and it passes: the state stays, and is worked off then
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
            if records.state(connection, document) in WANTED:
                records.set_state(connection, document, "failed", sentence)
