"""The table of folders. A folder is made by hand or with the first chat in it, and stays until it is removed."""

import sqlite3

from app.chats.chat_table import one_line


def folders(connection: sqlite3.Connection) -> tuple[str, ...]:
    """All folders by name, empty ones included."""
    # A chat that was restored may be in a folder that was removed meanwhile.
    rows = connection.execute(
        "SELECT name FROM folder UNION SELECT folder FROM chat WHERE deleted IS NULL AND folder <> ''"
    )
    return tuple(sorted((row["name"] for row in rows), key=str.casefold))


def make_folder(connection: sqlite3.Connection, name: str) -> None:
    """Makes an empty folder. One of this name that is there already stays as it is."""
    if folder := one_line(name):
        connection.execute("INSERT OR IGNORE INTO folder (name) VALUES (?)", (folder,))


def rename_folder(connection: sqlite3.Connection, old: str, new: str) -> None:
    """Renames a folder and that of all its chats, deleted ones included; with "" they are in no folder."""
    connection.execute("DELETE FROM folder WHERE name = ?", (old,))
    connection.execute("UPDATE chat SET folder = ? WHERE folder = ?", (one_line(new), old))
    make_folder(connection, new)


def remove_folder(connection: sqlite3.Connection, name: str) -> tuple[int, ...]:
    """Removes a folder; its chats are in none then. Returns their ids."""
    chats = in_folder(connection, name)
    rename_folder(connection, name, "")
    return chats


def in_folder(connection: sqlite3.Connection, name: str) -> tuple[int, ...]:
    """The ids of the chats in a folder, without deleted ones."""
    rows = connection.execute("SELECT id FROM chat WHERE folder = ? AND deleted IS NULL ORDER BY id", (name,))
    return tuple(row["id"] for row in rows)
