"""The SQLite file, opened with care.

One connection behind one lock serves all threads: what the app asks takes a few milliseconds, a database in memory
has but one connection anyway, and nobody waits for a lock that another thread of ours holds in the file. Long
readings (checking, copying) have a connection of their own. Other processes may read and write at the same time:
the file is in WAL mode.

A commit is on the disk when it returns (synchronous = FULL): a question and a second's worth of a reply are worth
one fsync, and after a power cut they are there.
"""

import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from app.database.migrations import migrate, read_migrations
from app.database.mishaps import as_sentences, is_damage
from app.database.transactions import transaction
from app.errors import StoreBroken, StoreNotUsable, StoreUnsupported
from app.settings import assets_dir

MEMORY = ":memory:"
FILE_NAME = "foresight.sqlite"
PATIENCE = 10.0
"""Seconds to wait for another process that writes."""
OLDEST = (3, 37, 0)
"""The first SQLite with STRICT tables."""
COMPANIONS = ("", "-wal", "-shm")
"""What SQLite adds to the name of a file for those that belong to it."""


class Database:
    """A SQLite file (or ":memory:") with the newest schema, safe to use from any thread.

    `note` is "" or a sentence for the person: a file that could not be read was put aside, and a new one begun."""

    def __init__(self, path: Path | str, migrations: Path | None = None, patience: float = PATIENCE) -> None:
        """Open or create it. Raises StoreError in words."""
        require_sqlite(sqlite3.sqlite_version_info, _modules())
        self.path = Path(path)
        self.note = ""
        self._is_memory = str(path) == MEMORY
        self._patience = patience
        self._migrations = read_migrations(migrations or assets_dir() / "migrations")
        self._lock = threading.RLock()
        self._counting = threading.Lock()  # two threads must not step through the one statement that counts
        self._connection = self._open()
        self._inode = self._look()

    @property
    def changes(self) -> int:
        """A count that grows with every row that is changed here, and with every commit of another process."""
        # The lock of transactions is not taken: who looks four times a second must not wait for those.
        with self._counting, as_sentences(str(self.path)):
            elsewhere = self._connection.execute("PRAGMA data_version").fetchone()[0]
            return int(self._connection.total_changes + elsewhere)

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """One state of the database, however many statements look at it."""
        with self._lock, as_sentences(str(self.path)), transaction(self._connection, "BEGIN"):
            yield self._connection

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """A transaction: all of it is on the disk when this ends, or nothing when it raises."""
        with self._lock, as_sentences(str(self.path)), transaction(self._connection, "BEGIN IMMEDIATE"):
            self._require_there()
            yield self._connection

    def is_healthy(self) -> str:
        """What is wrong with the file, in a sentence; "" when every page and every index is right.

        Reads the whole file. Raises StoreError where it cannot be checked now."""
        try:
            with as_sentences(str(self.path)), self._apart() as connection:
                problems = [*_broken_pages(connection), *_broken_indexes(connection)]
        except StoreBroken as error:
            problems = [str(error.__cause__)]
        return f"{self.path} is damaged: {problems[0]}." if problems else ""

    def backup(self, target: Path) -> None:
        """Copy everything, as it is now, into one file; one that was there is replaced when the copy is whole."""
        self._require_target(target)
        draft = target.with_name(target.name + ".new")
        try:
            with as_sentences(str(target), "choose another file"), self._apart() as source:
                _copy(source, draft)
            draft.replace(target)
        except OSError as error:
            raise StoreNotUsable(
                f"{target} cannot be written ({error.strerror}): choose another file."
            ) from error
        finally:
            draft.unlink(missing_ok=True)

    def size(self) -> int:
        """Bytes that it takes on the disk, or in memory."""
        if self._is_memory:
            with self.reading() as connection:
                pages = connection.execute("PRAGMA page_count").fetchone()[0]
                return int(pages * connection.execute("PRAGMA page_size").fetchone()[0])
        return sum(file.stat().st_size for file in self._files() if file.exists())

    def compact(self) -> None:
        """Give free room back to the disk, and leave nothing there of what was deleted."""
        with self._lock, as_sentences(str(self.path)):
            self._connection.execute("VACUUM")
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def fold(self) -> None:
        """Fold what is beside the file into it, as far as nobody reads there now: what was deleted is gone."""
        with self._lock, as_sentences(str(self.path)):
            self._connection.execute("PRAGMA busy_timeout = 0")
            try:
                self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            finally:
                self._connection.execute(f"PRAGMA busy_timeout = {self._patience * 1000:.0f}")

    def close(self) -> None:
        """Fold what is beside the file into it. Closing twice does no harm."""
        with self._lock:
            self._connection.close()

    def _open(self) -> sqlite3.Connection:
        try:
            return self._connected()
        except StoreBroken as error:
            kept = self._put_aside()
            self.note = (
                f"The chats in {self.path} could not be read ({error.__cause__}): the file is kept as {kept}, "
                "and Foresight began a new one. If you have a backup, put it in its place."
            )
            return self._connected()

    def _connected(self) -> sqlite3.Connection:
        self._make_folder()
        with as_sentences(str(self.path)):
            connection = self._connect()
            try:
                # Asked first: setting it takes the file for itself, even where it is so already.
                if connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
                    connection.execute("PRAGMA journal_mode = WAL")
                connection.execute("PRAGMA synchronous = FULL")
                # What one large import left beside the file goes with the next change.
                connection.execute(f"PRAGMA journal_size_limit = {16 * 2**20}")
                connection.execute("PRAGMA secure_delete = ON")  # what was deleted is overwritten
                migrate(connection, self._migrations, str(self.path))
                connection.execute("SELECT count(*) FROM sqlite_master")
            except BaseException:
                connection.close()
                raise
        return connection

    def _connect(self) -> sqlite3.Connection:
        place = MEMORY if self._is_memory else self.path
        connection = sqlite3.connect(place, self._patience, isolation_level=None, check_same_thread=False)
        connection.row_factory = sqlite3.Row
        connection.execute("PRAGMA foreign_keys = ON")
        return connection

    @contextmanager
    def _apart(self) -> Iterator[sqlite3.Connection]:
        """A connection for something long, beside which the app goes on where that is possible."""
        if self._is_memory or self._look() != self._inode:  # what is no longer there can still be saved
            with self._lock:
                yield self._connection
        else:
            with closing(self._connect()) as connection:
                yield connection

    def _look(self) -> tuple[int, int] | None:
        """Which file lies at the path; None where none can be seen."""
        try:
            found = self.path.stat()
        except OSError:
            return None
        return found.st_dev, found.st_ino

    def _require_there(self) -> None:
        """Raise StoreNotUsable for a file that was moved or deleted: SQLite would go on writing into nothing."""
        if not self._is_memory and self._look() != self._inode:
            raise StoreNotUsable(
                f"{self.path} is no longer there: put its folder back, or save all chats to another place "
                "and start Foresight again."
            )

    def _require_target(self, target: Path) -> None:
        if target.is_dir():
            raise StoreNotUsable(f"{target} is a folder: choose a file in it.")
        if not self._is_memory and target.exists() and self.path.exists() and target.samefile(self.path):
            raise StoreNotUsable(f"{target} is what is to be copied: choose another file.")

    def _make_folder(self) -> None:
        if self._is_memory:
            return
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreNotUsable(
                f"The folder {self.path.parent} cannot be made ({error.strerror}): "
                "choose another one with --data-dir."
            ) from error

    def _files(self) -> list[Path]:
        return [self.path.with_name(self.path.name + end) for end in COMPANIONS]

    def _put_aside(self) -> Path:
        """Move the file away with what belongs to it: somebody may still save something from it."""
        stamp = time.strftime("%Y%m%d-%H%M%S")
        kept = self.path.with_name(f"{self.path.name}.broken-{stamp}")
        for file, end in zip(self._files(), COMPANIONS, strict=True):
            if file.exists():
                file.replace(kept.with_name(kept.name + end))
        return kept


def database_in(data_dir: Path) -> Database:
    """The database of a data folder. Raises StoreError in words."""
    return Database(data_dir / FILE_NAME)


def require_sqlite(version: tuple[int, ...], modules: set[str]) -> None:
    """Raise StoreUnsupported for a SQLite that is too old, or was built without full-text search."""
    if version >= OLDEST and "fts5" in modules:
        return
    found = ".".join(map(str, version)) + ("" if "fts5" in modules else " without FTS5")
    raise StoreUnsupported(
        f"Foresight needs SQLite {'.'.join(map(str, OLDEST))} or newer with FTS5, and this Python has {found}: "
        "install a Python from python.org, your system's packages or uv."
    )


def _modules() -> set[str]:
    with closing(sqlite3.connect(MEMORY)) as connection:
        return {row[0] for row in connection.execute("SELECT name FROM pragma_module_list")}


def _broken_pages(connection: sqlite3.Connection) -> list[str]:
    told = [str(row[0]) for row in connection.execute("PRAGMA integrity_check(3)")]
    orphans = connection.execute("PRAGMA foreign_key_check").fetchall()
    return [one for one in told if one != "ok"] + [
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
    draft.unlink(missing_ok=True)
    with closing(sqlite3.connect(draft, isolation_level=None)) as copy:
        source.backup(copy)
        # One plain file, with nothing beside it.
        copy.execute("PRAGMA journal_mode = DELETE")
