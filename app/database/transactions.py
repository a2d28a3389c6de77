"""Runs transactions, turns SQLite's errors into StoreErrors, checks its version, and finds damage in databases.

Errors that only a bug in the app can cause stay sqlite3.Errors."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from app.database.files import files_of, recovery
from app.errors import StoreBroken, StoreError, StoreFull, StoreNotUsable, StoreUnsupported

FULL = {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR}
BROKEN = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
NO_ACCESS = {sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH}
OTHER_FOLDER = (
    "Give this user write access to the file and its folder, or choose another folder with --data-dir"
)
OLDEST = (3, 37, 0)
"""The first version of SQLite that has STRICT tables."""


@contextmanager
def transaction(connection: sqlite3.Connection, begin: str) -> Iterator[None]:
    """Runs a transaction: commits at the end, or rolls back if an error is raised."""
    connection.execute(begin)
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        # SQLite has already rolled back by itself after some errors, such as a full disk.
        with suppress(sqlite3.OperationalError):
            connection.execute("ROLLBACK")
        raise


@contextmanager
def store_errors(path: str, advice: str = OTHER_FOLDER) -> Iterator[None]:
    """Turns SQLite's errors about a file into StoreErrors. `advice` is added if the file cannot be used."""
    try:
        yield
    except UnicodeDecodeError as error:
        # SQLite quotes damaged text in its messages, which Python then cannot decode.
        raise _damage(path, error) from error
    except sqlite3.Error as error:
        translated = store_error_of(error, path, advice)
        if translated is None:
            raise
        raise translated from error


def store_error_of(error: sqlite3.Error, path: str, advice: str) -> StoreError | None:
    """Returns the StoreError for an error of SQLite; None for an error that only a bug in the app can cause."""
    code = _code(error)
    if code in FULL:
        return StoreFull(
            f"{path} could not be read or written ({error}). Free some disk space, or check that the disk is still "
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
    """Returns whether an error means that the file is damaged, and not just inaccessible."""
    # Python's wrapper raises an error without a code for a text that is not UTF-8.
    return _code(error) in BROKEN or str(error).startswith("Could not decode to UTF-8")


def _code(error: sqlite3.Error) -> int:
    # The lowest byte of an extended code is the primary code; errors of Python's wrapper have no code.
    code: int = getattr(error, "sqlite_errorcode", 0)
    return code & 0xFF


def require_sqlite(version: tuple[int, ...], modules: set[str]) -> None:
    """Raises StoreUnsupported if this SQLite is too old or has no full-text search."""
    if version >= OLDEST and "fts5" in modules:
        return
    found = ".".join(map(str, version)) + ("" if "fts5" in modules else " without FTS5")
    raise StoreUnsupported(
        f"Foresight needs SQLite {'.'.join(map(str, OLDEST))} or newer with FTS5, and this Python has {found}. "
        "Install a Python from python.org, your system's packages or uv."
    )


def available_modules() -> set[str]:
    """Returns the names of this SQLite's modules, such as fts5."""
    with closing(sqlite3.connect(":memory:")) as connection:
        return {row[0] for row in connection.execute("SELECT name FROM pragma_module_list")}


def damage_in(connection: sqlite3.Connection) -> str:
    """Checks all pages and indexes. Returns the first damage that it finds; "" if there is none."""
    messages = [str(row[0]) for row in connection.execute("PRAGMA integrity_check(3)")]
    if damage := next((message for message in messages if message != "ok"), ""):
        return damage
    if orphan := connection.execute("PRAGMA foreign_key_check").fetchone():
        return f"{orphan['table']} refers to rows that do not exist"
    indexes = connection.execute(
        "SELECT name FROM sqlite_master WHERE sql LIKE 'CREATE VIRTUAL TABLE % fts5%'"
    ).fetchall()
    for name in [row["name"] for row in indexes]:
        try:
            connection.execute(f"INSERT INTO {name} ({name}) VALUES ('integrity-check')")
        except sqlite3.DatabaseError as error:
            if not is_damage(error):
                raise
            return f"the search index {name} ({error})"
    return ""


def merge_index(connection: sqlite3.Connection, index: str, pages: int, is_first: bool) -> bool:
    """Merges about `pages` pages of an FTS5 index, which removes deleted words.

    Returns whether there is more to do."""
    before = connection.total_changes
    # FTS5 merges a few pages at a time. A negative number starts a complete merge; positive numbers continue it.
    connection.execute(
        f"INSERT INTO {index} ({index}, rank) VALUES ('merge', ?)", (-pages if is_first else pages,)
    )
    return connection.total_changes - before >= 2


def quick_damage_in(connection: sqlite3.Connection) -> str:
    """Checks all pages, but not whether indexes match their tables.

    Returns the first damage; "" if there is none."""
    found = str(connection.execute("PRAGMA quick_check(1)").fetchone()[0])
    return "" if found == "ok" else " ".join(found.split())
