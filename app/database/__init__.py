"""The SQLite database: opening it, transactions, migrations, backups and rescue."""
