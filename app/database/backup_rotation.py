"""Makes a backup of the database each day, and deletes backups that are no longer needed.

A damaged database is not backed up, so the last good backup stays. Erased data must not stay in backups. So the
database counts erasures, and at the next hourly check a new backup replaces the backups with smaller counts."""

import logging
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import closing, suppress
from pathlib import Path

from app.database.database import Database
from app.database.files import BACKUPS, FILE_NAME, backups_in
from app.errors import StoreBroken, StoreError

KEPT_DAYS = 3
DAY = 24 * 3600.0
FIRST_SECONDS = 30.0
"""Seconds after the start of the app until the first check."""
EACH_SECONDS = 3600.0
"""Seconds between two checks of whether a backup is due."""
PAUSE_SECONDS = 0.01
"""Seconds between two parts of a backup, so that other threads get the disk."""
COUNT = "SELECT count FROM erasures"
HAS_CONTENT = "SELECT EXISTS (SELECT 1 FROM message) OR EXISTS (SELECT 1 FROM document)"

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
        """Makes a backup if one is due, and then deletes the backups that it replaces.

        Raises StoreError, OSError, BackupStopped."""
        _remove(self._data_dir.glob(f"{BACKUPS}/*.new*"))  # left by an app that was killed
        for _ in range(2):  # data may be erased while the first backup is made
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
        """Deletes backups that have erased data or are too old, but not the new backup `made`."""
        others = [backup for backup in reversed(backups_in(self._data_dir)) if backup != made]
        count = _erasures(made)
        erased = [backup for backup in others if _erasures(backup) < count]
        rest = [backup for backup in others if backup not in erased]
        of_days = [backup for backup in rest if "schema" not in backup.name]
        of_schemas = [backup for backup in rest if "schema" in backup.name]
        old = {*of_days[KEPT_DAYS - 1 :], *of_schemas[1:]} - {self._before_damage(rest)}
        _remove([*erased, *old])

    def _before_damage(self, backups: list[Path]) -> Path | None:
        """Returns the newest backup from before the last damage, if any. The user may still want to restore it."""
        damaged = max((file.name for file in self._data_dir.glob(f"{FILE_NAME}.broken-*")), default="")
        stamp = damaged.partition("-")[2]
        return next((one for one in backups if one.name.partition("-")[2] < stamp), None)


def _erasures(backup: Path) -> int:
    """Returns the count of erasures in a backup; 0 if the backup has no count or cannot be read."""
    with (
        suppress(sqlite3.Error),
        closing(sqlite3.connect(f"{backup.absolute().as_uri()}?mode=ro", uri=True)) as one,
    ):
        return int(one.execute(COUNT).fetchone()[0])
    return 0


def _remove(files: Iterable[Path]) -> None:
    for file in files:
        file.unlink(missing_ok=True)
