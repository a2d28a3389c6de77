"""One SQLite file for everything that the app keeps."""

from app.database.database import MEMORY, Database, database_in

__all__ = ["MEMORY", "Database", "database_in"]
