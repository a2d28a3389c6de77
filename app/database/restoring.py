"""Replaces the database with a backup, and deletes the copies that the app has made.

Services keep ids and vectors of the database in memory, so the database is replaced only at the next start, before
it is opened. A crash between two moves does no harm, because the next start continues."""

import re
import shutil
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from threading import Lock

from app.database.database import MEMORY, Database
from app.database.files import BACKUPS, FILE_NAME, STAMP, SUFFIXES, backups_in
from app.database.migrations import has_chat_tables, migrate, schema_version, shipped_migrations
from app.database.transactions import damage_in, store_error_of
from app.errors import StoreFull, StoreNotUsable
from app.system.files import replacing, sync_folder

STAGED = "restore.sqlite"
KEPT = "before-restore-"
"""The prefix of the names of files and folders that were moved aside when a backup was restored."""
RESCUED = "rescued-"
"""The prefix of the names of databases that were rescued from a damaged file."""
COPIES = re.compile(
    rf"{KEPT}\d{{8}}-\d{{6}}(\.sqlite(-wal|-shm)?|-[a-z-]+)"
    rf"|{RESCUED}\d{{8}}-\d{{6}}\.sqlite|{re.escape(FILE_NAME)}\.broken-[0-9-]+(-wal|-shm)?"
    r"|foresight-\d{8}-\d{6}(-schema-\d+)?\.sqlite"
)
"""The names of copies of the database."""
SCHEMA = "SELECT type, name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite_%'"


class StagedBackup:
    """The backup that this process has staged for the next start. Safe to use from any thread."""

    def __init__(self, data_dir: Path) -> None:
        self.name = ""
        """The name of the backup's file; "" if this process has staged none."""
        self._data_dir = data_dir
        self._lock = Lock()

    def stage(self, source: Path) -> None:
        """Keeps a copy of this backup for the next start. Raises StoreError, and then changes nothing."""
        with self._lock:
            stage(source, self._data_dir)
            self.name = source.name

    def discard(self) -> None:
        """Deletes the staged backup. Raises StoreNotUsable."""
        with self._lock:
            try:
                (self._data_dir / STAGED).unlink(missing_ok=True)
            except OSError as error:
                raise StoreNotUsable(
                    f"{self._data_dir / STAGED} cannot be deleted ({error.strerror}). Delete it yourself before "
                    "Foresight starts again."
                ) from error
            self.name = ""


def require_backup(source: Path, data_dir: Path) -> None:
    """Raises StoreNotUsable for a file without the tables of chats. Only `stage` checks the whole file."""
    if not has_chat_tables(source):
        raise _no_backup(source, "it has no chats of Foresight", data_dir)


def stage(source: Path, data_dir: Path) -> None:
    """Checks a backup and keeps a copy of it for the next start. Raises StoreError, and then changes nothing."""
    if not source.is_file():
        raise StoreNotUsable(f"There is no file {source}. {_other_backup(data_dir)}")
    if (data_dir / STAGED).exists() and not has_chat_tables(data_dir / STAGED):
        raise StoreNotUsable(
            f"{data_dir / STAGED} is not Foresight's. Move it to another folder, then try again."
        )
    try:
        with replacing(data_dir / STAGED) as draft, _new_database(draft) as copy:
            _read(source, copy, data_dir)
    except sqlite3.Error as error:
        if isinstance(translated := store_error_of(error, str(source), ""), StoreFull):
            raise translated from error
        raise _no_backup(source, str(error), data_dir) from error
    except OSError as error:
        raise StoreNotUsable(
            f"The backup cannot be copied into {data_dir} ({error.strerror}). Free some disk space, or give this "
            "user write access to the folder, and try again."
        ) from error


def apply_staged(data_dir: Path, folders: Sequence[str] = ()) -> str:
    """Replaces the database with the staged backup. Returns a sentence for the user; "" if no backup is staged.

    `folders` of the data folder belong to the database and are moved aside with it. Raises StoreNotUsable."""
    staged, database = data_dir / STAGED, data_dir / FILE_NAME
    with suppress(OSError):
        for draft in data_dir.glob(f"{STAGED}.*.new*"):  # left by a process that was killed while it staged
            draft.unlink()
    if not has_chat_tables(staged):  # the file does not exist, or is another program's
        return ""
    kept = data_dir / time.strftime(f"{KEPT}{STAMP}.sqlite")
    try:
        for name in folders:
            _move(data_dir / name, kept.with_name(f"{kept.stem}-{name}"))
        # The database file is moved last, so that after a crash the next start continues.
        for end in reversed(SUFFIXES):
            _move(database.with_name(database.name + end), kept.with_name(kept.name + end))
        staged.replace(database)
        sync_folder(data_dir)
    except OSError as error:
        raise StoreNotUsable(
            f"The backup could not be put in place ({error.strerror}). Check the permissions of {data_dir} and "
            "start Foresight again."
        ) from error
    return f"The backup was restored. What was here before is kept as {kept}."


def discard_copies(data_dir: Path) -> None:
    """Deletes all copies of the database that the app has made in the data folder. Raises OSError.

    Links, and what is in a linked folder, are not deleted."""
    staged = [data_dir / STAGED] if has_chat_tables(data_dir / STAGED) else []
    named = (*data_dir.iterdir(), *data_dir.glob(f"{BACKUPS}/*"))
    copies = [one for one in named if COPIES.fullmatch(one.name)]
    copies = [one for one in copies if not one.is_symlink() and not one.parent.is_symlink()]
    for path in [*copies, *staged]:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


def _read(source: Path, copy: sqlite3.Connection, data_dir: Path) -> None:
    """Copies a backup, and migrates the copy to the newest schema. Raises StoreError or sqlite3.Error for an
    unusable backup."""
    copy.row_factory = sqlite3.Row
    with closing(sqlite3.connect(f"{source.absolute().as_uri()}?mode=ro", uri=True)) as backup:
        backup.backup(copy)
    copy.execute("PRAGMA journal_mode = DELETE")
    try:
        version = schema_version(copy, shipped_migrations(), str(source))
    except StoreNotUsable:
        version = 0
    if not version:
        raise _no_backup(source, "it does not have the tables of Foresight", data_dir)
    migrate(copy, shipped_migrations(), str(source))
    if damage := damage_in(copy):
        raise _no_backup(source, damage, data_dir)
    with closing(Database(MEMORY)) as newest, newest.reading() as connection:
        schemas = [{tuple(row) for row in one.execute(SCHEMA)} for one in (copy, connection)]
    if schemas[0] != schemas[1]:
        raise _no_backup(source, "it does not have the tables of Foresight", data_dir)


def _no_backup(source: Path, reason: str, data_dir: Path) -> StoreNotUsable:
    return StoreNotUsable(
        f"{source.name} is not a whole backup of Foresight ({reason}). {_other_backup(data_dir)}"
    )


@contextmanager
def _new_database(draft: Path) -> Iterator[sqlite3.Connection]:
    """Opens an empty file as a database. At the end, removes the files that SQLite has made beside it."""
    try:
        with closing(sqlite3.connect(draft, isolation_level=None)) as connection:
            yield connection
    finally:
        for end in (*SUFFIXES[1:], "-journal"):
            draft.with_name(draft.name + end).unlink(missing_ok=True)


def _other_backup(data_dir: Path) -> str:
    automatic = f", or the newest automatic one, {found[-1]}" if (found := backups_in(data_dir)) else ""
    return f"Choose a file that Back up has saved{automatic}."


def _move(path: Path, target: Path) -> None:
    if path.exists():
        path.replace(target)
