"""The table of drafts: what is typed in a chat and not sent yet. Chat 0 is the one that is not begun yet."""

import sqlite3

from app.values.text_normalisation import storable


def draft(connection: sqlite3.Connection, chat: int) -> str:
    """The chat's draft, "" for none."""
    row = connection.execute("SELECT text FROM draft WHERE chat = ?", (chat,)).fetchone()
    return str(row["text"]) if row else ""


def set_draft(connection: sqlite3.Connection, chat: int, text: str) -> None:
    """Replaces the chat's draft; "" deletes it. A chat that is gone gets none."""
    connection.execute("DELETE FROM draft WHERE chat = ?", (chat,))
    if text:
        connection.execute(
            "INSERT INTO draft (chat, text) SELECT ?1, ?2"
            " WHERE ?1 = 0 OR EXISTS (SELECT 1 FROM chat WHERE id = ?1 AND (deleted IS NULL OR deleted > 0))",
            (chat, storable(text)),
        )
