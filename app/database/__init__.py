"""The SQLite database: opening, transactions, migrations, backup."""

from app.database.database import MEMORY, Database, Store, database_in, reads, writes, writes_now

__all__ = ["MEMORY", "Database", "Store", "database_in", "reads", "writes", "writes_now"]
