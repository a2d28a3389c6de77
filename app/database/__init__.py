"""The SQLite database: opening, transactions, migrations, backup."""

from app.database.database import MEMORY, Database, database_in

__all__ = ["MEMORY", "Database", "database_in"]
