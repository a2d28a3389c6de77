"""Schema migrations: assets/migrations/0001_chats.sql, 0002_… are run in order, each once.

SQLite's `user_version` is the number of migrations that have run. All missing migrations run in one transaction, so
that a crash leaves the schema as it was. Released files never change; each change of the schema is a new file.
"""

import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from app.database.transactions import transaction
from app.errors import StoreNotUsable, StoreTooNew
from app.settings import assets_dir
from app.values.validation import require

CHAT_TABLES = {"chat", "message", "preset", "message_words", "chat_words"}
"""The tables that the database of every release has."""
CREATED = (b"CREATE VIRTUAL TABLE message_words", b"CREATE VIRTUAL TABLE chat_words")
SCHEMA_BYTES = 2**20
"""Number of bytes at the beginning of a damaged file that are searched for the schema's text."""
SHAPE = """
    SELECT type, name, '' FROM sqlite_master WHERE name NOT LIKE 'sqlite_%'
    UNION SELECT 'column', found.name, info.name FROM sqlite_master AS found, pragma_table_info(found.name) AS info
    WHERE found.type = 'table' AND found.name NOT LIKE 'sqlite_%' AND found.sql NOT LIKE 'CREATE VIRTUAL %'
"""
Scripts = tuple[str, ...]
"""The SQL scripts of the migrations, in order."""
Shape = frozenset[tuple[str, str, str]]
"""The tables, columns, indexes and triggers of a database. Search indexes, which may be damaged, are not opened."""


def read_migrations(folder: Path) -> Scripts:
    """Reads the migrations of a folder in order. Raises ValueError if a number is missing or occurs twice."""
    files = sorted(folder.glob("*.sql"))
    numbers = [int(path.stem.partition("_")[0]) for path in files]
    require(numbers == list(range(1, len(files) + 1)), "migrations must be numbered 1, 2, 3, …", numbers)
    return tuple(path.read_text(encoding="utf-8") for path in files)


def shipped_migrations() -> Scripts:
    return read_migrations(assets_dir() / "migrations")


def migrate(
    connection: sqlite3.Connection,
    migrations: Scripts,
    path: str,
    keep_backup: Callable[[int], None] = lambda _version: None,
) -> None:
    """Runs the missing migrations. `keep_backup` is called with the version of an older schema before its change.

    Raises StoreTooNew, and StoreNotUsable for a database of another program."""
    done = schema_version(connection, migrations, path)
    if done == len(migrations) == version_of(connection):
        return
    if 0 < done < len(migrations):
        keep_backup(done)
    # A migration may rebuild a table that other tables refer to. The setting cannot change inside a transaction.
    connection.execute("PRAGMA foreign_keys = OFF")
    try:
        with transaction(connection, "BEGIN IMMEDIATE"):
            # Read again, because another process may have migrated while this process waited.
            done = schema_version(connection, migrations, path)
            connection.execute(f"PRAGMA user_version = {done}")  # a pragma takes no parameters
            for number, script in enumerate(migrations[done:], done + 1):
                _apply(connection, number, script)
    finally:
        connection.execute("PRAGMA foreign_keys = ON")


def statements(script: str) -> Iterator[str]:
    """Yields the statements of a script, because `executescript` would commit first.

    "CREATE TABLE a (b);\\nDROP TABLE a;" has two statements; a trigger with its statements counts as one."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
    rest = "".join(line for line in statement.splitlines() if not line.lstrip().startswith("--"))
    require(not rest.strip(), "a script must end with a whole statement", statement)


def version_of(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def has_chat_tables(path: Path) -> bool:
    """Returns whether a file is a database of any release of the app, damaged or not. Writes nothing beside it."""
    try:
        if not path.is_file():
            return False
        if _has_chat_tables(path):
            return True
        wal = path.with_name(f"{path.name}-wal")
        if not wal.is_file():
            return False
        with TemporaryDirectory() as folder:  # the tables of a first run that was killed are in the WAL alone
            copies = [shutil.copyfile(file, Path(folder, file.name)) for file in (path, wal)]
            return _has_chat_tables(copies[0], "mode=rw")
    except OSError:
        return False


def _has_chat_tables(path: Path, mode: str = "immutable=1") -> bool:
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?{mode}", uri=True)) as connection:
            names = {row[0] for row in connection.execute("SELECT name FROM sqlite_master")}
    except sqlite3.Error:  # a damaged file may still have the schema's text near its beginning
        with path.open("rb") as file:
            beginning = file.read(SCHEMA_BYTES)
        return all(statement in beginning for statement in CREATED)
    return names >= CHAT_TABLES


def schema_version(connection: sqlite3.Connection, migrations: Scripts, path: str) -> int:
    """Returns the number of migrations that have run: `user_version`, or the number that fits the tables.

    Raises StoreTooNew, and StoreNotUsable for a database of another program."""
    stated = version_of(connection)
    if stated > len(migrations):
        raise StoreTooNew(
            f"{path} was last used by a newer version of Foresight (schema {stated}; this version has "
            f"{len(migrations)}). Update Foresight, or choose another folder with --data-dir."
        )
    found = _shape(connection)
    if not found:
        return 0
    shapes = _shapes(migrations)
    version = max((number for number, shape in enumerate(shapes, 1) if shape <= found), default=0)
    if not version:
        raise StoreNotUsable(
            f"{path} is not a database of Foresight: it has other tables. Move it to another place and start "
            "Foresight again, or choose another folder with --data-dir."
        )
    # Several versions have the same shape if a migration changes no table.
    return stated if stated > 0 and shapes[stated - 1] == shapes[version - 1] else version


@cache
def _shapes(migrations: Scripts) -> tuple[Shape, ...]:
    shapes = []
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        for number, script in enumerate(migrations, 1):
            _apply(connection, number, script)
            shapes.append(_shape(connection))
    return tuple(shapes)


def _shape(connection: sqlite3.Connection) -> Shape:
    return frozenset((str(kind), str(name), str(column)) for kind, name, column in connection.execute(SHAPE))


def _apply(connection: sqlite3.Connection, number: int, script: str) -> None:
    for statement in statements(script):
        connection.execute(statement)
    orphans = connection.execute("PRAGMA foreign_key_check").fetchall()
    require(not orphans, f"migration {number} must leave no row without its parent", orphans)
    connection.execute(f"PRAGMA user_version = {number}")
