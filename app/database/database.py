"""The SQLite database of chats and documents.

All threads share one connection, which a lock protects, because queries take only a few milliseconds. The file is
in WAL mode, so other processes may read at any time, and write in turn. A commit is on the disk when it returns
(synchronous = FULL), so that a power cut loses nothing that was saved."""

import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from functools import partial, wraps
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

from app.database.backups import Progress, keep_backup, write_backup
from app.database.files import FILE_NAME, backups_in, files_of, is_there, move_aside, recovery, require_target
from app.database.migrations import migrate, read_migrations, shipped_migrations
from app.database.transactions import available_modules, damage_in, require_sqlite, store_errors, transaction
from app.errors import StoreBroken, StoreNotUsable

MEMORY = ":memory:"
BUSY_SECONDS = 10.0
"""Maximum number of seconds that a transaction waits for another process that writes."""

P = ParamSpec("P")
R = TypeVar("R")


class Database:
    """A SQLite file (or ":memory:") with the newest schema, safe to use from any thread.

    `note` is a sentence for the user if the file was damaged, or was missing or empty although there are backups;
    else ""."""

    def __init__(
        self, path: Path | str, migrations: Path | None = None, busy_seconds: float = BUSY_SECONDS
    ) -> None:
        """Opens or creates the file and migrates it. A damaged file is moved aside. Raises StoreError."""
        require_sqlite(sqlite3.sqlite_version_info, available_modules())
        self.path = Path(path)
        self.note = ""
        self._unnoticed = 0
        self._is_memory = str(path) == MEMORY
        self._busy_seconds = busy_seconds
        self._migrations = read_migrations(migrations) if migrations else shipped_migrations()
        self._lock = threading.RLock()
        self._counting = threading.Lock()  # one thread at a time may use the counting statement
        self._connection = self._open()
        self._inode = self._file_id()

    @property
    def changes(self) -> int:
        """A counter that grows when another connection has committed, and when this process changes rows (except in
        `writing_unnoticed`)."""
        # `_lock` is not taken, because pages poll this counter and must not wait for transactions.
        with self._counting, store_errors(str(self.path)):
            elsewhere = self._connection.execute("PRAGMA data_version").fetchone()[0]
            return int(self._connection.total_changes - self._unnoticed + elsewhere)

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Runs a read transaction, in which all statements see the same state."""
        with self._lock, store_errors(str(self.path)), transaction(self._connection, "BEGIN"):
            yield self._connection

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Runs a write transaction. At the end all changes are on the disk, or none if an error was raised."""
        with self._lock, store_errors(str(self.path)), transaction(self._connection, "BEGIN IMMEDIATE"):
            self._require_there()
            yield self._connection

    @contextmanager
    def writing_unnoticed(self) -> Iterator[sqlite3.Connection]:
        """Runs a write transaction that `changes` does not count, for changes that no page shows."""
        with self.writing() as connection:
            before = connection.total_changes
            yield connection
            self._unnoticed += connection.total_changes - before

    def damage(self) -> str:
        """Reads the whole file and checks every page and index. Returns a sentence about the first damage, or "".

        Raises StoreError if the file cannot be checked now."""
        try:
            with store_errors(str(self.path)), self._own_connection() as connection:
                problem = damage_in(connection)
        except StoreBroken as error:
            problem = str(error.__cause__)
        return (
            f"{self.path} is damaged: {problem}. {recovery(self.path, self.path.parent)}" if problem else ""
        )

    def backup(self, target: Path, progress: Progress = lambda: None) -> None:
        """Copies the database into one file. A complete and undamaged copy replaces an existing file.

        `progress` is called repeatedly meanwhile, and may raise an error to stop the copying. Raises StoreError."""
        if not self._is_memory:
            require_target(target, self.path)
        with self._own_connection() as source:
            write_backup(source, self.path, target, "Choose another file", progress)

    def keep_backup(self, progress: Progress) -> Path:
        """Makes a backup in the folder of automatic backups. Returns its path. Raises StoreError."""
        with self._own_connection() as source:
            return keep_backup(source, self.path, "", progress)

    def size(self) -> int:
        """Returns the size of the database in bytes, on the disk or in memory."""
        if not self._is_memory:
            return sum(file.stat().st_size for file in files_of(self.path) if file.exists())
        pages, size = self._numbers("page_count", "page_size")
        return pages * size

    def used(self) -> int:
        """Returns the number of bytes in the database's pages that are in use."""
        pages, free, size = self._numbers("page_count", "freelist_count", "page_size")
        return (pages - free) * size

    def _numbers(self, *pragmas: str) -> list[int]:
        with self.reading() as connection:
            return [int(connection.execute(f"PRAGMA {name}").fetchone()[0]) for name in pragmas]

    def compact(self) -> None:
        """Gives unused pages back to the disk, and removes the remains of deleted rows."""
        with self._lock, store_errors(str(self.path)):
            self._connection.execute("VACUUM")
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def checkpoint(self) -> None:
        """Writes the WAL into the file and truncates the WAL, unless another connection uses it now."""
        with self._lock, store_errors(str(self.path)):
            self._connection.execute("PRAGMA busy_timeout = 0")
            try:
                self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            finally:
                self._connection.execute(f"PRAGMA busy_timeout = {self._busy_seconds * 1000:.0f}")

    def close(self) -> None:
        """Closes the database. The last connection writes the WAL into the file. It is safe to call this twice."""
        with self._lock:
            self._connection.close()

    def _open(self) -> sqlite3.Connection:
        if self._is_memory:
            return self._connected()
        self._make_folder()
        # SQLite would delete the WAL of an empty or missing file, and with it the last commits.
        is_headless = not is_there(self.path) and is_there(files_of(self.path)[1])
        backups = backups_in(self.path.parent)
        if not is_headless and not is_there(self.path) and backups:
            self.note = f"There were no chats in {self.path}. {recovery(None, self.path.parent)}"
        try:
            if is_headless:
                raise StoreBroken(f"{self.path} is empty or missing, but its WAL is not")
            return self._connected()
        except StoreBroken as error:
            kept = move_aside(self.path)
            self.note = (
                f"The chats in {self.path} could not be read ({error.__cause__ or error}). The file was kept as "
                f"{kept}, and Foresight created a new one. {recovery(kept, self.path.parent)}"
            )
            return self._connected()

    def _connected(self) -> sqlite3.Connection:
        with store_errors(str(self.path)):
            connection = self._connect()
            try:
                # Queried first, because setting the mode may need to lock the file.
                if connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
                    connection.execute("PRAGMA journal_mode = WAL")
                connection.execute("PRAGMA synchronous = FULL")
                # The WAL of a large import is truncated after its checkpoint.
                connection.execute(f"PRAGMA journal_size_limit = {16 * 2**20}")
                connection.execute("PRAGMA secure_delete = ON")  # deleted rows are overwritten
                keep = partial(self._keep_backup_of_schema, connection)
                migrate(connection, self._migrations, str(self.path), keep)
                connection.execute("SELECT count(*) FROM sqlite_master")
            except BaseException:
                connection.close()
                raise
        return connection

    def _keep_backup_of_schema(self, connection: sqlite3.Connection, version: int) -> None:
        # A damaged file gets no backup; its migration runs in a transaction, so a failure changes nothing.
        with suppress(StoreBroken):
            keep_backup(connection, self.path, f"-schema-{version}", lambda: None)

    def _connect(self) -> sqlite3.Connection:
        place = MEMORY if self._is_memory else self.path
        connection = sqlite3.connect(place, self._busy_seconds, isolation_level=None, check_same_thread=False)
        connection.row_factory = sqlite3.Row
        connection.execute("PRAGMA foreign_keys = ON")
        return connection

    @contextmanager
    def _own_connection(self) -> Iterator[sqlite3.Connection]:
        """Opens a separate connection for long reads, so that other threads are not blocked.

        Locks and yields the shared connection instead if the database is in memory, or if its file was moved."""
        if self._is_memory or self._file_id() != self._inode:
            with self._lock:
                yield self._connection
        else:
            with closing(self._connect()) as connection:
                yield connection

    def _file_id(self) -> tuple[int, int] | None:
        """Returns the device and inode of the file at the path; None if the file is missing."""
        try:
            found = self.path.stat()
        except OSError:
            return None
        return found.st_dev, found.st_ino

    def _require_there(self) -> None:
        """Raises StoreNotUsable if the file was moved or deleted, because SQLite would still write into it."""
        if not self._is_memory and self._file_id() != self._inode:
            raise StoreNotUsable(
                f"{self.path} is no longer there. Put its folder back, or save all chats to another place "
                "and start Foresight again."
            )

    def _make_folder(self) -> None:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreNotUsable(
                f"The folder {self.path.parent} cannot be created ({error.strerror}). "
                "Choose another one with --data-dir."
            ) from error


class Store:
    """The base of the classes that access one kind of data (`Chats`, `Documents`). Most of their methods are
    functions with a transaction around them:

    pin = writes(chat_table.pin)        `chats.pin(3, True)` runs `chat_table.pin(connection, 3, True)`
    """

    def __init__(self, database: Database, now: Callable[[], float] = time.time) -> None:
        """Keeps the database and the clock `now`, which returns seconds since 1970."""
        self.database = database
        self.now = now

    @property
    def changes(self) -> int:
        return self.database.changes


Statements = Callable[Concatenate[sqlite3.Connection, P], R]
Method = Callable[Concatenate[Store, P], R]


def reads(function: Statements[P, R]) -> Method[P, R]:
    return _within(Database.reading, function)


def writes(function: Statements[P, R]) -> Method[P, R]:
    return _within(Database.writing, function)


def writes_unnoticed(function: Statements[P, R]) -> Method[P, R]:
    """Makes a method that runs this function in a write transaction that `changes` does not count."""
    return _within(Database.writing_unnoticed, function)


def _within(
    transaction: Callable[[Database], AbstractContextManager[sqlite3.Connection]], function: Statements[P, R]
) -> Method[P, R]:
    @wraps(function)
    def method(store: Store, /, *args: P.args, **kwargs: P.kwargs) -> R:
        with transaction(store.database) as connection:
            return function(connection, *args, **kwargs)

    return method


def writes_now(function: Callable[Concatenate[sqlite3.Connection, float, P], R]) -> Method[P, R]:
    """Makes a method that runs this function in a write transaction, with the time as its second argument."""

    @wraps(function)
    def method(store: Store, /, *args: P.args, **kwargs: P.kwargs) -> R:
        with store.database.writing() as connection:
            return function(connection, store.now(), *args, **kwargs)

    return method


def database_in(data_dir: Path) -> Database:
    """Opens the database of a data folder. Raises StoreError."""
    return Database(data_dir / FILE_NAME)
