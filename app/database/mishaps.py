"""What SQLite complains of, as sentences; what is a mistake of ours stays an exception."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from app.errors import StoreBroken, StoreError, StoreFull, StoreNotUsable

FULL = {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR}
BROKEN = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
ELSEWHERE = "let this user write the file and its folder, or choose another folder with --data-dir"
CLOSED_OFF = {sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH}


@contextmanager
def as_sentences(place: str, cure: str = ELSEWHERE) -> Iterator[None]:
    """Turn SQLite's errors about the file at `place` into StoreErrors; `cure` helps where it cannot be opened."""
    try:
        yield
    except sqlite3.Error as error:
        told = translated(error, place, cure)
        if told is None:
            raise
        raise told from error


def translated(error: sqlite3.Error, place: str, cure: str) -> StoreError | None:
    """The sentence for an error of SQLite's; None for one that only our own code can have made."""
    code = _code(error)
    if code in FULL:
        return StoreFull(
            f"{place} could not be written ({error}): free some space on its disk, or look whether it is still "
            "there, and try again. What was saved before is kept."
        )
    if is_damage(error):
        return StoreBroken(
            f"Part of {place} is damaged ({error}): save what can still be read with "
            "`python run.py chats export`, then move the file away and start again."
        )
    if code in BUSY:
        return StoreNotUsable(f"Another program holds {place} for itself: close it and try again.")
    if code in CLOSED_OFF:
        return StoreNotUsable(f"{place} cannot be used ({error}): {cure}.")
    return None


def is_damage(error: sqlite3.Error) -> bool:
    """Whether this says that the file itself is wrong, and not that it cannot be read or written now."""
    return _code(error) in BROKEN


def _code(error: sqlite3.Error) -> int:
    # Extended codes say more in their upper bytes; errors of Python's own wrapper have no code.
    code: int = getattr(error, "sqlite_errorcode", 0)
    return code & 0xFF
