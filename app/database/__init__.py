"""The SQLite database: opening it, transactions, migrations, backups and rescue."""

from app.database.database import (
    MEMORY,
    Database,
    Store,
    database_in,
    reads,
    writes,
    writes_now,
    writes_unnoticed,
)

__all__ = ["MEMORY", "Database", "Store", "database_in", "reads", "writes", "writes_now", "writes_unnoticed"]
