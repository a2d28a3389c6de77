"""Checks whether this Python's SQLite can be used, and whether a database is whole."""

import sqlite3
from contextlib import closing

from app.database.transactions import is_damage
from app.errors import StoreUnsupported

OLDEST = (3, 37, 0)
"""The first SQLite with STRICT tables."""


def require_sqlite(version: tuple[int, ...], modules: set[str]) -> None:
    """Raises StoreUnsupported for a SQLite that is too old, or has no full-text search."""
    if version >= OLDEST and "fts5" in modules:
        return
    found = ".".join(map(str, version)) + ("" if "fts5" in modules else " without FTS5")
    raise StoreUnsupported(
        f"Foresight needs SQLite {'.'.join(map(str, OLDEST))} or newer with FTS5, and this Python has {found}. "
        "Install a Python from python.org, your system's packages or uv."
    )


def available_modules() -> set[str]:
    """The names of this SQLite's modules, fts5 among them."""
    with closing(sqlite3.connect(":memory:")) as connection:
        return {row[0] for row in connection.execute("SELECT name FROM pragma_module_list")}


def damage_in(connection: sqlite3.Connection) -> str:
    """What is damaged first, of all pages and indexes; "" for nothing."""
    return next(iter([*_broken_pages(connection), *_broken_indexes(connection)]), "")


def _broken_pages(connection: sqlite3.Connection) -> list[str]:
    messages = [str(row[0]) for row in connection.execute("PRAGMA integrity_check(3)")]
    orphans = connection.execute("PRAGMA foreign_key_check").fetchall()
    return [one for one in messages if one != "ok"] + [
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


def quick_damage_in(connection: sqlite3.Connection) -> str:
    """Which page is damaged first; "" for none. Indexes are not compared with their tables."""
    found = str(connection.execute("PRAGMA quick_check(1)").fetchone()[0])
    return "" if found == "ok" else " ".join(found.split())
