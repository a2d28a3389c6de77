"""Backups: the app keeps a backup of each of the last days, and can put a backup in the place of the database.

    backups/foresight-20260714-103000.sqlite             a daily backup: the last three are kept
    backups/foresight-20260714-103000-schema-7.sqlite    before a migration: the last one is kept

Backups are made in the background while the app runs. A damaged database is not backed up, so the last good backup
stays. Erased data must not stay in backups: the database counts erasures, and within an hour a new backup replaces
the backups with a smaller count.

    stage(source, data_dir)     checks a backup, and keeps a copy of it with today's schema as restore.sqlite
    apply_staged(data_dir)      moves the database aside, and restore.sqlite into its place
    discard_copies(data_dir)    deletes the files that were moved aside, and all other copies

Services keep ids and vectors of the database in memory, so it is exchanged only at the next start, before it is
opened. A crash between two moves does no harm, because the next start continues.
"""

import logging
import re
import shutil
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from app.database.database import MEMORY, Database
from app.database.files import BACKUPS, FILE_NAME, STAMP, SUFFIXES, backups_in
from app.database.migrations import has_chat_tables, migrate, schema_version, shipped_migrations
from app.database.transactions import damage_in, store_error_of
from app.errors import StoreBroken, StoreError, StoreFull, StoreNotUsable
from app.system.files import replacing, sync_folder

KEPT_DAYS = 3
DAY = 24 * 3600.0
FIRST_SECONDS = 30.0
"""Seconds after the start of the app until the first check."""
EACH_SECONDS = 3600.0
"""Seconds between checks whether a backup is due."""
PAUSE_SECONDS = 0.01
"""Seconds between two parts of a backup, so that other threads get the disk."""
COUNT = "SELECT count FROM erasures"
HAS_CONTENT = "SELECT EXISTS (SELECT 1 FROM message) OR EXISTS (SELECT 1 FROM document)"
STAGED = "restore.sqlite"
KEPT = "before-restore-"
"""The beginning of the names of files and folders that a backup has replaced."""
RESCUED = "rescued-"
"""The beginning of the names of files that were saved from a damaged database."""
COPIES = re.compile(
    rf"{KEPT}\d{{8}}-\d{{6}}(\.sqlite(-wal|-shm)?|-[a-z-]+)"
    rf"|{RESCUED}\d{{8}}-\d{{6}}\.sqlite|{re.escape(FILE_NAME)}\.broken-[0-9-]+(-wal|-shm)?"
    r"|foresight-\d{8}-\d{6}(-schema-\d+)?\.sqlite"
)
"""The names of copies of the database."""
SCHEMA = "SELECT type, name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite_%'"

log = logging.getLogger(__name__)


class BackupStopped(Exception):
    """The backup was stopped because the app is closing."""


class DailyBackups:
    """Makes the backups of a data folder's database on a thread."""

    def __init__(
        self, database: Database, now: Callable[[], float] = time.time, first_seconds: float = FIRST_SECONDS
    ) -> None:
        self._database = database
        self._data_dir = database.path.parent
        self._now = now
        self._first_seconds = first_seconds
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="backups", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Stops a backup that is being made, and ends the thread. It is safe to call this twice."""
        self._closing.set()
        if self._thread.is_alive():
            self._thread.join()

    def keep(self) -> None:
        """Makes a backup if one is due, and deletes backups that are too old. Raises StoreError, BackupStopped."""
        _remove(self._data_dir.glob(f"{BACKUPS}/*.new*"))  # left by an app that was killed
        for _ in range(2):  # more may be erased meanwhile
            if self._is_due():
                self._drop_others(self._database.keep_backup(self._wait))

    def _run(self) -> None:
        seconds = self._first_seconds
        while not self._closing.wait(seconds):
            seconds = EACH_SECONDS
            try:
                self.keep()
            except BackupStopped:
                return
            except (StoreError, OSError) as error:
                log.warning("no backup was made: %s", error)
                if isinstance(error, StoreBroken):
                    self._database.note = str(error)

    def _wait(self) -> None:
        if self._closing.wait(PAUSE_SECONDS):
            raise BackupStopped

    def _is_due(self) -> bool:
        with self._database.reading() as connection:
            count, has_content = (connection.execute(query).fetchone()[0] for query in (COUNT, HAS_CONTENT))
        backups = backups_in(self._data_dir)
        if any(_erasures(backup) < count for backup in backups):
            return True
        newest = max((backup.stat().st_mtime for backup in backups), default=0.0)
        # If the clock was set back, the newest backup may lie in the future.
        return bool(has_content) and abs(self._now() - newest) >= DAY

    def _drop_others(self, made: Path) -> None:
        """Deletes the backups that the new backup `made` replaces: with erased data, or too old."""
        others = [backup for backup in reversed(backups_in(self._data_dir)) if backup != made]
        count = _erasures(made)
        erased = [backup for backup in others if _erasures(backup) < count]
        rest = [backup for backup in others if backup not in erased]
        of_days = [backup for backup in rest if "schema" not in backup.name]
        of_schemas = [backup for backup in rest if "schema" in backup.name]
        old = {*of_days[KEPT_DAYS - 1 :], *of_schemas[1:]} - {self._before_damage(rest)}
        _remove([*erased, *old])

    def _before_damage(self, backups: list[Path]) -> Path | None:
        """Returns the newest backup before the last damage, because the user may still want it."""
        damaged = max((file.name for file in self._data_dir.glob(f"{FILE_NAME}.broken-*")), default="")
        stamp = damaged.partition("-")[2]
        return next((one for one in backups if one.name.partition("-")[2] < stamp), None)


def _erasures(backup: Path) -> int:
    """Returns the count of erasures in a backup; 0 if its schema has no such count or it cannot be read."""
    with (
        suppress(sqlite3.Error),
        closing(sqlite3.connect(f"{backup.absolute().as_uri()}?mode=ro", uri=True)) as one,
    ):
        return int(one.execute(COUNT).fetchone()[0])
    return 0


def _remove(files: Iterable[Path]) -> None:
    for file in files:
        file.unlink(missing_ok=True)


def stage(source: Path, data_dir: Path) -> None:
    """Checks a backup and keeps a copy of it for the next start. Raises StoreError, and then changes nothing."""
    if not source.is_file():
        raise StoreNotUsable(f"There is no file {source}. {_other_backup(data_dir)}")
    if (data_dir / STAGED).exists() and not has_chat_tables(data_dir / STAGED):
        raise StoreNotUsable(
            f"{data_dir / STAGED} is not Foresight's. Move it to another folder, then try again."
        )
    try:
        with (
            replacing(data_dir / STAGED) as draft,
            _errors_of(source, data_dir),
            _new_database(draft) as copy,
        ):
            _read(source, copy, data_dir)
    except OSError as error:
        raise StoreNotUsable(
            f"The backup cannot be copied into {data_dir} ({error.strerror}). Free some disk space, or give this "
            "user write access to the folder, and try again."
        ) from error


def apply_staged(data_dir: Path, folders: Sequence[str] = ()) -> str:
    """Puts the staged backup into the database's place. Returns a sentence about it; "" if no backup is staged.

    `folders` of the data folder belong to the database and are moved aside with it. Raises StoreNotUsable."""
    staged, database = data_dir / STAGED, data_dir / FILE_NAME
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
    """Deletes all copies of the database that the app has made in the data folder, damaged ones too."""
    staged = [data_dir / STAGED] if has_chat_tables(data_dir / STAGED) else []
    for path in [*filter(_is_copy, (*data_dir.iterdir(), *data_dir.glob(f"{BACKUPS}/*"))), *staged]:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


def _is_copy(path: Path) -> bool:
    """Returns whether a file or folder has a name that the app gives to copies, and is not a link."""
    return bool(COPIES.fullmatch(path.name)) and not path.is_symlink() and not path.parent.is_symlink()


def _read(source: Path, copy: sqlite3.Connection, data_dir: Path) -> None:
    """Copies a backup, and migrates the copy to today's schema. Raises StoreNotUsable if it is no whole backup."""
    copy.row_factory = sqlite3.Row
    with closing(sqlite3.connect(f"{source.absolute().as_uri()}?mode=ro", uri=True)) as backup:
        backup.backup(copy)
    copy.execute("PRAGMA journal_mode = DELETE")
    try:
        version = schema_version(copy, shipped_migrations(), str(source))
    except StoreNotUsable:
        version = 0
    if not version:
        raise _no_backup(source, "it has other tables", data_dir)
    migrate(copy, shipped_migrations(), str(source))
    if damage := damage_in(copy):
        raise _no_backup(source, damage, data_dir)
    with closing(Database(MEMORY)) as newest, newest.reading() as connection:
        schemas = [{tuple(row) for row in one.execute(SCHEMA)} for one in (copy, connection)]
    if schemas[0] != schemas[1]:
        raise _no_backup(source, "it has other tables", data_dir)


@contextmanager
def _errors_of(source: Path, data_dir: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        if isinstance(translated := store_error_of(error, str(source), ""), StoreFull):
            raise translated from error
        raise _no_backup(source, str(error), data_dir) from error


def _no_backup(source: Path, reason: str, data_dir: Path) -> StoreNotUsable:
    return StoreNotUsable(
        f"{source.name} is not a whole backup of Foresight ({reason}). {_other_backup(data_dir)}"
    )


@contextmanager
def _new_database(draft: Path) -> Iterator[sqlite3.Connection]:
    """Opens an empty file as a database; at the end removes the files that SQLite has made beside it."""
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
