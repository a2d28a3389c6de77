"""Transactions, and SQLite's errors as StoreErrors. Errors that only our own code can cause stay as they are."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from app.database.files import files_of, recovery
from app.errors import StoreBroken, StoreError, StoreFull, StoreNotUsable

FULL = {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR}
BROKEN = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
OTHER_FOLDER = (
    "Give this user write access to the file and its folder, or choose another folder with --data-dir"
)
NO_ACCESS = {sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH}


@contextmanager
def transaction(connection: sqlite3.Connection, begin: str) -> Iterator[None]:
    """Commits at the end, or rolls back when an error is raised."""
    connection.execute(begin)
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        # After the gravest errors SQLite has rolled back by itself.
        with suppress(sqlite3.OperationalError):
            connection.execute("ROLLBACK")
        raise


@contextmanager
def store_errors(path: str, advice: str = OTHER_FOLDER) -> Iterator[None]:
    """Turns SQLite's errors about a file into StoreErrors. `advice` is for a file that cannot be opened."""
    try:
        yield
    except UnicodeDecodeError as error:
        # SQLite quotes what it reads in its messages, which Python cannot decode then.
        raise _damage(path, error) from error
    except sqlite3.Error as error:
        translated = store_error_of(error, path, advice)
        if translated is None:
            raise
        raise translated from error


def store_error_of(error: sqlite3.Error, path: str, advice: str) -> StoreError | None:
    """The StoreError for an error of SQLite; None for one that only our own code can cause."""
    code = _code(error)
    if code in FULL:
        return StoreFull(
            f"{path} could not be written ({error}). Free some disk space, or check that the disk is still "
            "connected, and try again. What was saved before is kept."
        )
    if is_damage(error):
        return _damage(path, error)
    if code in BUSY:
        return StoreNotUsable(f"Another program has locked {path}. Close it and try again.")
    if code in NO_ACCESS:
        if folder := next((file for file in files_of(Path(path)) if file.is_dir()), None):
            return StoreNotUsable(f"{folder} is a folder. Move it to another place and try again.")
        return StoreNotUsable(f"{path} cannot be used ({error}). {advice}.")
    return None


def _damage(path: str, error: Exception) -> StoreBroken:
    file = Path(path)
    return StoreBroken(
        f"Part of {path} is damaged, or its disk cannot be read ({error}). {recovery(file, file.parent)}"
    )


def is_damage(error: sqlite3.Error) -> bool:
    """Whether the file itself is damaged, rather than not accessible now."""
    # Python's wrapper raises an error without a code for a text that is no UTF-8.
    return _code(error) in BROKEN or str(error).startswith("Could not decode to UTF-8")


def _code(error: sqlite3.Error) -> int:
    # Extended codes have more in their upper bytes; errors of Python's wrapper have no code.
    code: int = getattr(error, "sqlite_errorcode", 0)
    return code & 0xFF
