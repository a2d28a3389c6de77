"""Deleting that can be undone: a chat is hidden, and erased when the app ends, or at the start after a kill.

FTS5 only marks words as deleted and keeps them until its segments are merged, which takes seconds for many chats.
 So a chat is erased in short steps, and its row keeps the progress until the last one:

    deleted > 0     hidden, can be restored
    deleted = -1    only words in the index are left
    deleted = 0     the index is being merged; after the last step the row is deleted
"""

import sqlite3

from app.chats.chat_table import require_chat
from app.errors import ChatNotFound

INDEXES = ("chat_words", "message_words")
HIDDEN = "SELECT id FROM chat WHERE deleted > 0"
MERGED_PAGES = 200
"""Pages of an index that are content in one transaction."""


def delete(connection: sqlite3.Connection, chat: int, now: float) -> None:
    """Hides a chat. Raises ChatNotFound."""
    require_chat(connection, chat)
    # With a clock before 1970, too, the chat must be hidden and not half erased.
    connection.execute("UPDATE chat SET deleted = max(?, 1) WHERE id = ?", (now, chat))


def restore(connection: sqlite3.Connection, chat: int) -> None:
    """Restores a hidden chat. Raises ChatNotFound when it is erased."""
    restored = connection.execute("UPDATE chat SET deleted = NULL WHERE id = ? AND deleted > 0", (chat,))
    if not restored.rowcount:
        raise ChatNotFound


def empty(connection: sqlite3.Connection) -> None:
    """Deletes the messages, drafts, titles and settings of hidden chats."""
    connection.execute(f"DELETE FROM message WHERE chat IN ({HIDDEN})")
    connection.execute(f"DELETE FROM draft WHERE chat IN ({HIDDEN})")
    connection.execute(f"DELETE FROM chat_words WHERE rowid IN ({HIDDEN})")
    connection.execute(
        "UPDATE chat SET title = '', folder = '', system = '', sampling = NULL, shown = 0, deleted = -1"
        " WHERE deleted > 0"
    )


def merge(connection: sqlite3.Connection) -> bool:
    """Merges some pages of the indexes, without the deleted words. Returns whether there is more to do."""
    is_first = connection.execute("SELECT 1 FROM chat WHERE deleted = 0").fetchone() is None
    if is_first and not connection.execute("UPDATE chat SET deleted = 0 WHERE deleted = -1").rowcount:
        return False
    # FTS5 merges a few pages at a time: a negative number starts a complete merge, positive ones continue it.
    pages = -MERGED_PAGES if is_first else MERGED_PAGES
    if not any([_has_merged(connection, index, pages) for index in INDEXES]):
        connection.execute("DELETE FROM chat WHERE deleted = 0")
    return True


def _has_merged(connection: sqlite3.Connection, index: str, pages: int) -> bool:
    before = connection.total_changes
    connection.execute(f"INSERT INTO {index} ({index}, rank) VALUES ('merge', ?)", (pages,))
    return connection.total_changes - before >= 2


def delete_all(connection: sqlite3.Connection) -> None:
    """Erases all chats and folders at once."""
    connection.execute("DELETE FROM chat")
    connection.execute("DELETE FROM folder")
    connection.execute("DELETE FROM draft")
    for index in INDEXES:  # or the words would stay until they are merged
        connection.execute(f"INSERT INTO {index} ({index}) VALUES ('rebuild')")
