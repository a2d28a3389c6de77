"""Everything or nothing."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress


@contextmanager
def transaction(connection: sqlite3.Connection, begin: str) -> Iterator[None]:
    """Keep all that is done in it, or, when an error leaves it, nothing."""
    connection.execute(begin)
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        # SQLite itself has rolled back after the gravest errors; then there is nothing left to roll back.
        with suppress(sqlite3.OperationalError):
            connection.execute("ROLLBACK")
        raise
