"""The schema's history: assets/migrations/0001_chats.sql, 0002_… are run in turn, each once.

SQLite's `user_version` says how many were. All that are missing run in one transaction, so that a crash leaves the
schema as it was; a released file is never changed, a new one is added.
"""

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from app.database.transactions import transaction
from app.errors import StoreTooNew
from app.validation import require


@dataclass(frozen=True, slots=True)
class Migration:
    """One file of the schema's history."""

    number: int
    name: str
    script: str


def read_migrations(folder: Path) -> tuple[Migration, ...]:
    """The migrations of a folder, oldest first. Raises ValueError where a number is missing or comes twice."""
    found = tuple(_read(path) for path in sorted(folder.glob("*.sql")))
    numbers = [one.number for one in found]
    require(numbers == list(range(1, len(found) + 1)), "migrations must be numbered 1, 2, 3, …", numbers)
    return found


def migrate(connection: sqlite3.Connection, migrations: tuple[Migration, ...], place: str) -> None:
    """Bring a database up to date. Raises StoreTooNew for one that a newer app has changed."""
    if _done(connection, migrations, place) == len(migrations):
        return
    # A migration may rebuild a table that others refer to; the setting cannot change inside a transaction.
    connection.execute("PRAGMA foreign_keys = OFF")
    try:
        with transaction(connection, "BEGIN IMMEDIATE"):
            # Asked again: another process may have migrated while this one waited for its turn.
            for migration in migrations[_done(connection, migrations, place) :]:
                _apply(connection, migration)
    finally:
        connection.execute("PRAGMA foreign_keys = ON")


def statements(script: str) -> Iterator[str]:
    """The statements of a script one by one: `executescript` would commit before it runs them.

    "CREATE TABLE a (b);\\nDROP TABLE a;" has two; a trigger with statements of its own is one."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
    require(not _without_comments(statement), "a script must end with a whole statement", statement)


def _read(path: Path) -> Migration:
    number, _, name = path.stem.partition("_")
    return Migration(int(number), name, path.read_text(encoding="utf-8"))


def _done(connection: sqlite3.Connection, migrations: tuple[Migration, ...], place: str) -> int:
    done = int(connection.execute("PRAGMA user_version").fetchone()[0])
    if done > len(migrations):
        raise StoreTooNew(
            f"{place} was last used by a newer Foresight (its form is {done}, this one knows {len(migrations)}): "
            "update the app, or choose another folder with --data-dir."
        )
    return done


def _apply(connection: sqlite3.Connection, migration: Migration) -> None:
    for statement in statements(migration.script):
        connection.execute(statement)
    orphans = connection.execute("PRAGMA foreign_key_check").fetchall()
    require(not orphans, f"migration {migration.number} must leave no row without its parent", orphans)
    connection.execute(f"PRAGMA user_version = {migration.number}")  # a pragma takes no parameters


def _without_comments(script: str) -> str:
    return "".join(line for line in script.splitlines() if not line.lstrip().startswith("--")).strip()
