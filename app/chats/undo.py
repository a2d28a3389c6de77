"""Deleting that can be undone: a chat is hidden, and forgotten when the app ends, or starts after a kill.

FTS5 only notes that words are gone, and keeps them until its segments are merged, which takes seconds in a large
library. So a chat is forgotten in short steps, and its empty row remembers how far that is until the last one:

    deleted > 0     hidden, can be restored
    deleted = -1    nothing is left of it but words in the index
    deleted = 0     those are being merged away; with the last of them the row goes
"""

import sqlite3

from app.chats.lines import require_chat
from app.errors import ChatNotFound

INDEXES = ("chat_words", "message_words")
HIDDEN = "SELECT id FROM chat WHERE deleted > 0"
MERGED_PAGES = 200
"""Pages of an index that are written in one transaction."""


def delete(connection: sqlite3.Connection, chat: int, now: float) -> None:
    """Hide a chat. Raises ChatNotFound."""
    require_chat(connection, chat)
    # A clock before 1970 must not make it one that is half forgotten.
    connection.execute("UPDATE chat SET deleted = max(?, 1) WHERE id = ?", (now, chat))


def restore(connection: sqlite3.Connection, chat: int) -> None:
    """Bring a deleted chat back. Raises ChatNotFound when it is forgotten."""
    restored = connection.execute("UPDATE chat SET deleted = NULL WHERE id = ? AND deleted > 0", (chat,))
    if not restored.rowcount:
        raise ChatNotFound


def empty(connection: sqlite3.Connection) -> None:
    """Delete all that hidden chats say."""
    connection.execute(f"DELETE FROM message WHERE chat IN ({HIDDEN})")
    connection.execute(f"DELETE FROM chat_words WHERE rowid IN ({HIDDEN})")
    connection.execute(
        "UPDATE chat SET title = '', folder = '', system = '', sampling = NULL, shown = 0, deleted = -1"
        " WHERE deleted > 0"
    )


def merge(connection: sqlite3.Connection) -> bool:
    """Write some of the indexes anew without the words of empty chats; whether there is more to do."""
    is_first = connection.execute("SELECT 1 FROM chat WHERE deleted = 0").fetchone() is None
    if is_first and not connection.execute("UPDATE chat SET deleted = 0 WHERE deleted = -1").rowcount:
        return False
    # FTS5's way to merge all there is a few pages at a time: a negative number begins, positive ones go on.
    pages = -MERGED_PAGES if is_first else MERGED_PAGES
    if not any([_has_merged(connection, index, pages) for index in INDEXES]):
        connection.execute("DELETE FROM chat WHERE deleted = 0")
    return True


def _has_merged(connection: sqlite3.Connection, index: str, pages: int) -> bool:
    before = connection.total_changes
    connection.execute(f"INSERT INTO {index} ({index}, rank) VALUES ('merge', ?)", (pages,))
    return connection.total_changes - before >= 2


def delete_all(connection: sqlite3.Connection) -> None:
    """Forget all chats at once, without a way back."""
    connection.execute("DELETE FROM chat")
    for index in INDEXES:  # which would remember the words until they are merged
        connection.execute(f"INSERT INTO {index} ({index}) VALUES ('rebuild')")
