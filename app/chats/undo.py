"""Deleting that can be undone: a chat is hidden, and forgotten when the app ends, or starts after a kill."""

import sqlite3

from app.chats.lines import require_chat
from app.errors import ChatNotFound


def delete(connection: sqlite3.Connection, chat: int, now: float) -> None:
    """Hide a chat. Raises ChatNotFound."""
    require_chat(connection, chat)
    connection.execute("UPDATE chat SET deleted = ? WHERE id = ?", (now, chat))


def restore(connection: sqlite3.Connection, chat: int) -> None:
    """Bring a deleted chat back. Raises ChatNotFound when it is forgotten."""
    if not connection.execute("UPDATE chat SET deleted = NULL WHERE id = ?", (chat,)).rowcount:
        raise ChatNotFound


def purge(connection: sqlite3.Connection) -> None:
    """Forget deleted chats for good."""
    connection.execute("DELETE FROM chat WHERE deleted IS NOT NULL")


def delete_all(connection: sqlite3.Connection) -> None:
    """Forget all chats at once, without a way back."""
    connection.execute("DELETE FROM chat")
    for index in ("chat_words", "message_words"):  # which would remember the words until they are merged
        connection.execute(f"INSERT INTO {index} ({index}) VALUES ('rebuild')")
