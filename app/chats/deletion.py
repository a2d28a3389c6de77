"""Deletion that can be undone: chats and messages are hidden, and erased once they can no longer be restored.

Deleting the messages of many chats takes seconds. FTS5 then only marks their words as deleted, and keeps the words
until its segments are merged. So chats are erased in short steps, and `deleted` in a chat's row stores the
progress:

    deleted > 0     hidden, can be restored
    deleted = -2    its messages are being deleted
    deleted = -3    the same; the row is not a chat, but a container of messages deleted from another chat
    deleted = -4    a container whose messages can be put back: `version` is their chat's id, and `shown` was the
                    last message of the chat's shown path
    deleted = -1    only words in the index are left
    deleted = 0     the index is being merged; after the last step the row is deleted
"""

import json
import sqlite3
from collections.abc import Sequence

from app.chats.chat_table import require_chat
from app.database.transactions import merge_index
from app.errors import ChatNotFound

INDEXES = ("chat_words", "message_words")
MESSAGES, CHARACTERS = 100, 200_000
"""Maximum numbers of messages and, approximately, of characters that are deleted in one transaction."""
MERGED_PAGES = 200
"""Pages of an index that are merged in one transaction."""


def delete(connection: sqlite3.Connection, now: float, chat: int) -> None:
    """Hides a chat until it is restored or erased. Raises ChatNotFound."""
    require_chat(connection, chat)
    # The number must be above 0, even if the clock is before 1970.
    connection.execute("UPDATE chat SET deleted = max(?, 1) WHERE id = ?", (now, chat))


def restore(connection: sqlite3.Connection, chat: int) -> None:
    """Restores a hidden chat. Raises ChatNotFound for a chat that is not hidden."""
    restored = connection.execute("UPDATE chat SET deleted = NULL WHERE id = ? AND deleted > 0", (chat,))
    if not restored.rowcount:
        raise ChatNotFound


def claim(connection: sqlite3.Connection) -> None:
    """Marks all hidden chats and messages to be erased, so that they can no longer be restored."""
    connection.execute("UPDATE chat SET deleted = iif(deleted > 0, -2, -3) WHERE deleted > 0 OR deleted = -4")


def claim_all(connection: sqlite3.Connection) -> None:
    """Marks all chats to be erased, and deletes all folders and drafts."""
    claim(connection)
    connection.execute("UPDATE chat SET deleted = -2 WHERE deleted IS NULL")
    connection.execute("DELETE FROM folder")
    connection.execute("DELETE FROM draft")


def take_out(connection: sqlite3.Connection, chat: int, shown: int, messages: Sequence[int]) -> None:
    """Moves a message and all messages below it out of their chat, until they are put back or erased."""
    container = connection.execute(
        "INSERT INTO chat (created, updated, version, shown, deleted) VALUES (0, 0, ?, ?, -4)", (chat, shown)
    ).lastrowid
    connection.execute(
        "UPDATE message SET chat = ? WHERE id IN (SELECT value FROM json_each(?))",
        (container, json.dumps(messages)),
    )


def put_back(connection: sqlite3.Connection, chat: int) -> int:
    """Moves back the messages that were taken out of this chat last. Returns the last message of the
    path that was shown before they were taken out.

    Raises ChatNotFound if there are none, or if they are being erased."""
    container = connection.execute(
        "SELECT id, shown FROM chat WHERE deleted = -4 AND version = ? ORDER BY id DESC LIMIT 1", (chat,)
    ).fetchone()
    if container is None:
        raise ChatNotFound("message")
    connection.execute("UPDATE message SET chat = ? WHERE chat = ?", (chat, container["id"]))
    connection.execute("DELETE FROM chat WHERE id = ?", (container["id"],))
    return int(container["shown"])


def erase_some(connection: sqlite3.Connection) -> bool:
    """Erases a part of the chats and messages that are marked. Returns whether there is more to do."""
    # The oldest container comes first, because later containers may hold ancestors of its messages, and deleting an
    # ancestor deletes all messages below it.
    container = connection.execute("SELECT id FROM chat WHERE deleted = -3 ORDER BY id LIMIT 1").fetchone()
    if container:
        if not _delete_newest(connection, container["id"]):
            connection.execute("UPDATE chat SET deleted = -1 WHERE id = ?", (container["id"],))
        return True
    row = connection.execute("SELECT id FROM chat WHERE deleted = -2 LIMIT 1").fetchone()
    if row is None:
        return _merge(connection)
    chat = row["id"]
    if not _delete_newest(connection, chat):
        connection.execute("DELETE FROM draft WHERE chat = ?", (chat,))
        connection.execute("DELETE FROM queued WHERE chat = ?", (chat,))
        connection.execute("DELETE FROM chat_words WHERE rowid = ?", (chat,))
        connection.execute(
            "UPDATE chat SET title = '', folder = '', system = '', sampling = NULL, json_answers = NULL,"
            " tools = '', shown = 0, deleted = -1 WHERE id = ?",
            (chat,),
        )
    return True


def _delete_newest(connection: sqlite3.Connection, chat: int) -> bool:
    """Deletes the newest messages of a chat, up to the limits. Returns whether there were any."""
    # Deleting a message also deletes all messages below it, and SQLite nests at most 1,000 of these deletions. So
    # the newest messages come first.
    newest = connection.execute(
        "SELECT id, length(text) AS length FROM message WHERE id IN"
        " (SELECT id FROM message WHERE chat = ? ORDER BY id DESC LIMIT ?) ORDER BY id DESC",
        (chat, MESSAGES),
    ).fetchall()
    characters = 0
    for row in newest:
        connection.execute("DELETE FROM message WHERE id = ?", (row["id"],))
        characters += row["length"]
        if characters > CHARACTERS:
            break
    return bool(newest)


def _merge(connection: sqlite3.Connection) -> bool:
    """Merges pages of the indexes, which removes deleted words. At the end, deletes the rows of erased chats.

    Returns whether there is more to do."""
    is_first = connection.execute("SELECT 1 FROM chat WHERE deleted = 0").fetchone() is None
    if is_first and not connection.execute("UPDATE chat SET deleted = 0 WHERE deleted = -1").rowcount:
        return False
    if connection.execute("SELECT 1 FROM message LIMIT 1").fetchone() is None:
        for index in INDEXES:
            connection.execute(f"INSERT INTO {index} ({index}) VALUES ('rebuild')")
        connection.execute("DELETE FROM chat WHERE deleted = 0")
        return False
    if not any([merge_index(connection, index, MERGED_PAGES, is_first) for index in INDEXES]):
        connection.execute("DELETE FROM chat WHERE deleted = 0")
    return True
