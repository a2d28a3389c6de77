"""Makes backups, which are copies of the whole database at one moment, each in one file."""

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from app.database.files import BACKUPS, STAMP, recovery
from app.database.transactions import quick_damage_in, store_errors, transaction
from app.errors import StoreBroken, StoreNotUsable
from app.system.files import make_folder, replacing_output

COPIED_PAGES = 256
"""Number of pages that are copied between two calls of `progress`."""

Progress = Callable[[], None]


def keep_backup(source: sqlite3.Connection, database: Path, end: str, progress: Progress) -> Path:
    """Makes a backup in the folder of automatic backups, as `write_backup` does. Its name ends with `end` and
    ".sqlite".

    Returns its path. Raises StoreError."""
    target = database.parent / BACKUPS / time.strftime(f"foresight-{STAMP}{end}.sqlite")
    advice = f"Check the permissions of {target.parent}, or move it away"
    with _writing(target, advice):
        make_folder(target.parent)
    write_backup(source, database, target, advice, progress)
    return target


def write_backup(
    source: sqlite3.Connection, database: Path, target: Path, advice: str, progress: Progress
) -> None:
    """Copies the database of the connection `source` into the file `target`, which is replaced by the whole copy.

    `progress` is called after each COPIED_PAGES pages, and may raise an error to stop the copying. `advice` ends
    the message about a file that cannot be written. Raises StoreError, and StoreBroken if the copy is damaged."""
    with _writing(target, advice), replacing_output(target) as draft:
        with (
            store_errors(str(target), advice),
            closing(sqlite3.connect(draft, isolation_level=None)) as copy,
            transaction(source, "BEGIN"),
        ):
            copy.execute("PRAGMA synchronous = OFF")  # replacing_output syncs the whole file
            # This query begins the read, so that later changes of other connections are hidden.
            source.execute("SELECT count(*) FROM sqlite_master")
            source.backup(copy, pages=COPIED_PAGES, progress=lambda *_: progress())
            copy.execute("PRAGMA journal_mode = DELETE")  # so that the file needs no WAL
            damage = quick_damage_in(copy)
        if damage:
            raise StoreBroken(
                f"No backup was made of {database}, which is damaged ({damage}). "
                f"{recovery(database, database.parent)}"
            )


@contextmanager
def _writing(target: Path, advice: str) -> Iterator[None]:
    """Raises StoreNotUsable in place of an OSError of the block."""
    try:
        yield
    except OSError as error:
        raise StoreNotUsable(f"{target} cannot be written ({error.strerror}). {advice}.") from error
