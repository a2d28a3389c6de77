"""The table of messages and its full-text index. A message is in the index unless it is still being written."""

import json
import sqlite3
from collections.abc import Iterable
from typing import get_args

from app.chats.json_columns import marks_from_json, marks_to_json, value_from_json, value_to_json
from app.chats.message_tree import ROOT, MessageTree
from app.errors import ChatNotFound
from app.values.chat import MessageContent, Provenance, StoredMessage, WritingState
from app.values.document import Sources
from app.values.messages import Role
from app.values.text_normalisation import spaced, storable

MOST_INDEXED = 500_000
"""Characters of a message that are in the index: more would hold the database for too long."""
INTERRUPTED = "Foresight ended before this reply was complete."


def insert(
    connection: sqlite3.Connection,
    chat: int,
    parent: int,
    role: Role,
    content: MessageContent,
    created: float,
) -> int:
    """Adds a message below another one (0: a first message). Returns its id."""
    added = connection.execute(
        "INSERT INTO message (chat, parent, role, text, state, note, marks, provenance, thought, sources, created)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (chat, parent or None, role, *_columns(content), created),
    )
    message = int(added.lastrowid or 0)
    _index(connection, message, content)
    return message


def write(connection: sqlite3.Connection, message: int, content: MessageContent) -> None:
    """Replaces what a message says. A deleted message stays deleted.

    Content in state "writing" never replaces content that is complete: it came too late."""
    updated = connection.execute(
        "UPDATE message SET text = ?, state = ?, note = ?, marks = ?, provenance = ?, thought = ?,"
        " sources = ?"
        " WHERE id = ? AND (state = 'writing' OR ? <> 'writing')",
        (*_columns(content), message, content.state),
    )
    if updated.rowcount:
        _index(connection, message, content)


def reopen(connection: sqlite3.Connection, message: int) -> None:
    """Puts a message back into state "writing". Its text stays."""
    connection.execute("UPDATE message SET state = 'writing', note = '' WHERE id = ?", (message,))
    connection.execute("DELETE FROM message_words WHERE rowid = ?", (message,))


def is_writing(connection: sqlite3.Connection) -> bool:
    """Whether a message is in state "writing"."""
    return connection.execute("SELECT 1 FROM message WHERE state = 'writing' LIMIT 1").fetchone() is not None


def mark_interrupted(connection: sqlite3.Connection) -> None:
    """Marks each message in state "writing" as interrupted. To be called at the start of the app."""
    for row in connection.execute("SELECT id, text FROM message WHERE state = 'writing'").fetchall():
        connection.execute(
            "UPDATE message SET state = 'interrupted', note = ? WHERE id = ?", (INTERRUPTED, row["id"])
        )
        _index(connection, row["id"], MessageContent(row["text"], "interrupted"))


def tree_of(connection: sqlite3.Connection, chat: int) -> MessageTree:
    """The tree of a chat's messages, without their texts."""
    cursor = connection.cursor()
    cursor.row_factory = None
    return MessageTree(cursor.execute("SELECT id, ifnull(parent, 0) FROM message WHERE chat = ?", (chat,)))


def chat_of(connection: sqlite3.Connection, message: int) -> int:
    """The chat that a message belongs to. Raises ChatNotFound."""
    found = connection.execute("SELECT chat FROM message WHERE id = ?", (message,)).fetchone()
    if found is None:
        raise ChatNotFound("message")
    return int(found["chat"])


def parent(connection: sqlite3.Connection, message: int) -> int:
    """The parent message, or the root. Raises ChatNotFound."""
    return tree_of(connection, chat_of(connection, message)).parent(message)


def stored(
    connection: sqlite3.Connection, messages: Iterable[int], tree: MessageTree
) -> tuple[StoredMessage, ...]:
    """These messages in this order."""
    wanted = list(messages)
    return stored_of(rows_of(connection, wanted), wanted, tree)


def stored_of(
    rows: Iterable[sqlite3.Row], messages: Iterable[int], tree: MessageTree
) -> tuple[StoredMessage, ...]:
    """The same of rows that were read before: parsing them takes long."""
    by_id = {row["id"]: row for row in rows}
    return tuple(_stored(by_id[message], tree.versions(message)) for message in messages)


def messages_of(connection: sqlite3.Connection, chats: Iterable[int]) -> list[sqlite3.Row]:
    """The chat, role, text and time of each message of these chats."""
    return connection.execute(
        "SELECT chat, role, text, created FROM message WHERE chat IN (SELECT value FROM json_each(?))",
        (json.dumps(list(chats)),),
    ).fetchall()


def require_in(tree: MessageTree, message: int) -> None:
    """Raises ChatNotFound for a message that is neither the root nor in this tree."""
    if message != ROOT and message not in tree:
        raise ChatNotFound("message")


def rows_of(connection: sqlite3.Connection, messages: list[int]) -> list[sqlite3.Row]:
    """The rows of these messages."""
    # One parameter for all ids: SQLite limits the number of parameters.
    return connection.execute(
        "SELECT * FROM message WHERE id IN (SELECT value FROM json_each(?))", (json.dumps(messages),)
    ).fetchall()


def _stored(row: sqlite3.Row, versions: tuple[int, ...]) -> StoredMessage:
    state: WritingState = row["state"] if row["state"] in get_args(WritingState) else "done"
    marks, provenance = marks_from_json(row["marks"]), value_from_json(Provenance, row["provenance"])
    sources = value_from_json(Sources, row["sources"])
    content = MessageContent(row["text"], state, row["note"], marks, provenance, row["thought"], sources)
    return StoredMessage(row["id"], row["role"], content, row["created"], versions)


def _columns(content: MessageContent) -> tuple[object, ...]:
    return (
        storable(content.text),
        content.state,
        storable(content.note),
        marks_to_json(content.marks),
        value_to_json(content.provenance),
        content.thought,
        value_to_json(content.sources),
    )


def _index(connection: sqlite3.Connection, message: int, content: MessageContent) -> None:
    if content.state == "writing":
        return
    connection.execute("DELETE FROM message_words WHERE rowid = ?", (message,))
    if content.text:
        connection.execute(
            "INSERT INTO message_words (rowid, text) VALUES (?, ?)",
            (message, spaced(content.text[:MOST_INDEXED])),
        )
