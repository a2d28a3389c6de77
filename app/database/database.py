"""The SQLite database.

One connection behind one lock serves all threads: queries take a few milliseconds, a database in memory has only
one connection anyway, and threads never wait for each other's file locks. Long reads (checking, copying) use their
own connection. Other processes may read and write at the same time: the file is in WAL mode.

A commit is on the disk when it returns (synchronous = FULL), so that a power cut loses nothing that was saved.
"""

import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from app.database.migrations import migrate, read_migrations
from app.database.transactions import is_damage, store_errors, transaction
from app.errors import StoreBroken, StoreNotUsable, StoreUnsupported
from app.files import replacing_output
from app.settings import assets_dir

MEMORY = ":memory:"
FILE_NAME = "foresight.sqlite"
BUSY_SECONDS = 10.0
"""How long to wait for another process that writes."""
OLDEST = (3, 37, 0)
"""The first SQLite with STRICT tables."""
SUFFIXES = ("", "-wal", "-shm")
"""SQLite's files of one database."""


class Database:
    """A SQLite file (or ":memory:") with the newest schema, safe to use from any thread.

    `note` is "" or tells the person that a damaged file was moved aside and a new one created."""

    def __init__(
        self, path: Path | str, migrations: Path | None = None, busy_seconds: float = BUSY_SECONDS
    ) -> None:
        """Opens or creates the file. Raises StoreError."""
        require_sqlite(sqlite3.sqlite_version_info, _modules())
        self.path = Path(path)
        self.note = ""
        self._is_memory = str(path) == MEMORY
        self._busy_seconds = busy_seconds
        self._migrations = read_migrations(migrations or assets_dir() / "migrations")
        self._lock = threading.RLock()
        self._counting = threading.Lock()  # one thread at a time may use the counting statement
        self._connection = self._open()
        self._inode = self._file_id()

    @property
    def changes(self) -> int:
        """A counter that grows with every changed row, and with every commit of another process."""
        # Without the lock of transactions: pages poll this counter and must not wait for them.
        with self._counting, store_errors(str(self.path)):
            elsewhere = self._connection.execute("PRAGMA data_version").fetchone()[0]
            return int(self._connection.total_changes + elsewhere)

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """A read transaction: all statements see the same state."""
        with self._lock, store_errors(str(self.path)), transaction(self._connection, "BEGIN"):
            yield self._connection

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """A write transaction: at the end everything is on the disk, or nothing if an error is raised."""
        with self._lock, store_errors(str(self.path)), transaction(self._connection, "BEGIN IMMEDIATE"):
            self._require_there()
            yield self._connection

    def is_healthy(self) -> str:
        """Checks every page and every index. Returns "" or a sentence about what is damaged.

        Reads the whole file. Raises StoreError when it cannot be checked now."""
        try:
            with store_errors(str(self.path)), self._own_connection() as connection:
                problem = damage_in(connection)
        except StoreBroken as error:
            problem = str(error.__cause__)
        return f"{self.path} is damaged: {problem}." if problem else ""

    def backup(self, target: Path) -> None:
        """Copies everything into one file. An existing file is replaced once the copy is complete."""
        self._require_target(target)
        try:
            with (
                replacing_output(target) as draft,
                store_errors(str(target), "Choose another file"),
                self._own_connection() as source,
            ):
                _copy(source, draft)
        except OSError as error:
            raise StoreNotUsable(
                f"{target} cannot be written ({error.strerror}). Choose another file."
            ) from error

    def size(self) -> int:
        """Bytes on the disk, or in memory."""
        if self._is_memory:
            with self.reading() as connection:
                pages = connection.execute("PRAGMA page_count").fetchone()[0]
                return int(pages * connection.execute("PRAGMA page_size").fetchone()[0])
        return sum(file.stat().st_size for file in self._files() if file.exists())

    def used(self) -> int:
        """Bytes of the file that are in use."""
        with self.reading() as connection:
            pages, free, size = (
                int(connection.execute(f"PRAGMA {name}").fetchone()[0])
                for name in ("page_count", "freelist_count", "page_size")
            )
        return (pages - free) * size

    def compact(self) -> None:
        """Returns free pages to the disk and removes what is left of deleted rows."""
        with self._lock, store_errors(str(self.path)):
            self._connection.execute("VACUUM")
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def checkpoint(self) -> None:
        """Writes the WAL into the file and truncates it, unless another process reads it now."""
        with self._lock, store_errors(str(self.path)):
            self._connection.execute("PRAGMA busy_timeout = 0")
            try:
                self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            finally:
                self._connection.execute(f"PRAGMA busy_timeout = {self._busy_seconds * 1000:.0f}")

    def close(self) -> None:
        """Writes the WAL into the file and closes it. May be called twice."""
        with self._lock:
            self._connection.close()

    def _open(self) -> sqlite3.Connection:
        try:
            return self._connected()
        except StoreBroken as error:
            kept = self._move_aside()
            self.note = (
                f"The chats in {self.path} could not be read ({error.__cause__}). The file was kept as {kept}, "
                "and Foresight created a new one. If you have a backup, put it in its place."
            )
            return self._connected()

    def _connected(self) -> sqlite3.Connection:
        self._make_folder()
        with store_errors(str(self.path)):
            connection = self._connect()
            try:
                # Queried first: setting the mode locks the file even if nothing changes.
                if connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
                    connection.execute("PRAGMA journal_mode = WAL")
                connection.execute("PRAGMA synchronous = FULL")
                # The next commit truncates what a large import left in the WAL.
                connection.execute(f"PRAGMA journal_size_limit = {16 * 2**20}")
                connection.execute("PRAGMA secure_delete = ON")  # deleted rows are overwritten
                migrate(connection, self._migrations, str(self.path))
                connection.execute("SELECT count(*) FROM sqlite_master")
            except BaseException:
                connection.close()
                raise
        return connection

    def _connect(self) -> sqlite3.Connection:
        place = MEMORY if self._is_memory else self.path
        connection = sqlite3.connect(place, self._busy_seconds, isolation_level=None, check_same_thread=False)
        connection.row_factory = sqlite3.Row
        connection.execute("PRAGMA foreign_keys = ON")
        return connection

    @contextmanager
    def _own_connection(self) -> Iterator[sqlite3.Connection]:
        """A connection for long reads, so that the app is not blocked, if that is possible."""
        if self._is_memory or self._file_id() != self._inode:  # a file that was moved away can still be saved
            with self._lock:
                yield self._connection
        else:
            with closing(self._connect()) as connection:
                yield connection

    def _file_id(self) -> tuple[int, int] | None:
        """The device and inode of the file at the path; None if there is none."""
        try:
            found = self.path.stat()
        except OSError:
            return None
        return found.st_dev, found.st_ino

    def _require_there(self) -> None:
        """Raises StoreNotUsable for a file that was moved or deleted: SQLite would write into nothing."""
        if not self._is_memory and self._file_id() != self._inode:
            raise StoreNotUsable(
                f"{self.path} is no longer there. Put its folder back, or save all chats to another place "
                "and start Foresight again."
            )

    def _require_target(self, target: Path) -> None:
        if target.is_dir():
            raise StoreNotUsable(f"{target} is a folder. Choose a file in it.")
        if not self._is_memory and target.exists() and self.path.exists() and target.samefile(self.path):
            raise StoreNotUsable(f"{target} is the database itself. Choose another file.")

    def _make_folder(self) -> None:
        if self._is_memory:
            return
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreNotUsable(
                f"The folder {self.path.parent} cannot be created ({error.strerror}). "
                "Choose another one with --data-dir."
            ) from error

    def _files(self) -> list[Path]:
        return [self.path.with_name(self.path.name + end) for end in SUFFIXES]

    def _move_aside(self) -> Path:
        """Renames the database's files: something may still be recovered from them."""
        stamp = time.strftime("%Y%m%d-%H%M%S")
        kept = self.path.with_name(f"{self.path.name}.broken-{stamp}")
        for file, end in zip(self._files(), SUFFIXES, strict=True):
            if file.exists():
                file.replace(kept.with_name(kept.name + end))
        return kept


def database_in(data_dir: Path) -> Database:
    """The database of a data folder. Raises StoreError."""
    return Database(data_dir / FILE_NAME)


def require_sqlite(version: tuple[int, ...], modules: set[str]) -> None:
    """Raises StoreUnsupported for a SQLite that is too old, or has no full-text search."""
    if version >= OLDEST and "fts5" in modules:
        return
    found = ".".join(map(str, version)) + ("" if "fts5" in modules else " without FTS5")
    raise StoreUnsupported(
        f"Foresight needs SQLite {'.'.join(map(str, OLDEST))} or newer with FTS5, and this Python has {found}. "
        "Install a Python from python.org, your system's packages or uv."
    )


def _modules() -> set[str]:
    with closing(sqlite3.connect(MEMORY)) as connection:
        return {row[0] for row in connection.execute("SELECT name FROM pragma_module_list")}


def damage_in(connection: sqlite3.Connection) -> str:
    """What is damaged first, of all pages and indexes; "" for nothing."""
    return next(iter([*_broken_pages(connection), *_broken_indexes(connection)]), "")


def _broken_pages(connection: sqlite3.Connection) -> list[str]:
    messages = [str(row[0]) for row in connection.execute("PRAGMA integrity_check(3)")]
    orphans = connection.execute("PRAGMA foreign_key_check").fetchall()
    return [one for one in messages if one != "ok"] + [
        f"{row['table']} refers to what is not there" for row in orphans
    ]


def _broken_indexes(connection: sqlite3.Connection) -> list[str]:
    found = connection.execute("SELECT name FROM sqlite_master WHERE sql LIKE 'CREATE VIRTUAL TABLE % fts5%'")
    broken = []
    for name in [row["name"] for row in found]:
        try:
            connection.execute(f"INSERT INTO {name} ({name}) VALUES ('integrity-check')")
        except sqlite3.DatabaseError as error:
            if not is_damage(error):
                raise
            broken.append(f"the search index {name} ({error})")
    return broken


def _copy(source: sqlite3.Connection, draft: Path) -> None:
    with closing(sqlite3.connect(draft, isolation_level=None)) as copy:
        source.backup(copy)
        # One file, without a WAL.
        copy.execute("PRAGMA journal_mode = DELETE")
