"""Messages as rows: read, put in, written on. A message has its words in the index unless it is being written."""

import sqlite3
from collections.abc import Iterable
from typing import get_args

from app.chat_messages import MessageContent, StoredMessage, WritingState
from app.chats.provenance_json import (
    marks_from_json,
    marks_to_json,
    provenance_from_json,
    provenance_to_json,
    sources_from_json,
    sources_to_json,
)
from app.chats.tree import ROOT, Tree
from app.errors import ChatNotFound
from app.messages import Role
from app.spacing import spaced, storable

INTERRUPTED = "Foresight ended before this reply was complete."


def insert(
    connection: sqlite3.Connection,
    chat: int,
    parent: int,
    role: Role,
    written: MessageContent,
    created: float,
) -> int:
    """Add a message below another one (0: a first message); its id."""
    added = connection.execute(
        "INSERT INTO message (chat, parent, role, text, state, note, marks, provenance, thought, sources, created)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (chat, parent or None, role, *_columns(written), created),
    )
    message = int(added.lastrowid or 0)
    _index(connection, message, written)
    return message


def write(connection: sqlite3.Connection, message: int, written: MessageContent) -> None:
    """Replace what a message has come to; a message that is gone stays gone.

    What is still being written never takes the place of what is complete: whoever wrote it was late."""
    changed = connection.execute(
        "UPDATE message SET text = ?, state = ?, note = ?, marks = ?, provenance = ?, thought = ?,"
        " sources = ?"
        " WHERE id = ? AND (state = 'writing' OR ? <> 'writing')",
        (*_columns(written), message, written.state),
    )
    if changed.rowcount:
        _index(connection, message, written)


def write_on(connection: sqlite3.Connection, message: int) -> None:
    """Let a message be written again; its text stays until then."""
    connection.execute("UPDATE message SET state = 'writing', note = '' WHERE id = ?", (message,))
    connection.execute("DELETE FROM message_words WHERE rowid = ?", (message,))


def interrupt(connection: sqlite3.Connection) -> None:
    """Say of each message that was being written that nobody writes it any more."""
    for row in connection.execute("SELECT id, text FROM message WHERE state = 'writing'").fetchall():
        connection.execute(
            "UPDATE message SET state = 'interrupted', note = ? WHERE id = ?", (INTERRUPTED, row["id"])
        )
        _index(connection, row["id"], MessageContent(row["text"], "interrupted"))


def tree_of(connection: sqlite3.Connection, chat: int) -> Tree:
    """All messages of a chat, without their texts."""
    cursor = connection.cursor()
    cursor.row_factory = None
    return Tree(cursor.execute("SELECT id, ifnull(parent, 0) FROM message WHERE chat = ?", (chat,)))


def chat_of(connection: sqlite3.Connection, message: int) -> int:
    """The chat that a message belongs to. Raises ChatNotFound."""
    found = connection.execute("SELECT chat FROM message WHERE id = ?", (message,)).fetchone()
    if found is None:
        raise ChatNotFound("message")
    return int(found["chat"])


def parent(connection: sqlite3.Connection, message: int) -> int:
    """The message above, or the root. Raises ChatNotFound."""
    return tree_of(connection, chat_of(connection, message)).parent(message)


def stored(connection: sqlite3.Connection, messages: Iterable[int], tree: Tree) -> tuple[StoredMessage, ...]:
    """These messages in this order."""
    wanted = list(messages)
    rows = {row["id"]: row for row in _rows(connection, wanted)}
    return tuple(_stored(rows[message], tree.versions(message)) for message in wanted)


def require_in(tree: Tree, message: int) -> None:
    """Raise ChatNotFound for a message that is neither the root nor in this tree."""
    if message != ROOT and message not in tree:
        raise ChatNotFound("message")


def _rows(connection: sqlite3.Connection, messages: list[int]) -> list[sqlite3.Row]:
    places = ",".join("?" * len(messages))
    return connection.execute(f"SELECT * FROM message WHERE id IN ({places})", messages).fetchall()


def _stored(row: sqlite3.Row, versions: tuple[int, ...]) -> StoredMessage:
    state: WritingState = row["state"] if row["state"] in get_args(WritingState) else "done"
    marks, provenance = marks_from_json(row["marks"]), provenance_from_json(row["provenance"])
    sources = sources_from_json(row["sources"])
    written = MessageContent(row["text"], state, row["note"], marks, provenance, row["thought"], sources)
    return StoredMessage(row["id"], row["role"], written, row["created"], versions)


def _columns(written: MessageContent) -> tuple[object, ...]:
    return (
        storable(written.text),
        written.state,
        storable(written.note),
        marks_to_json(written.marks),
        provenance_to_json(written.provenance),
        written.thought,
        sources_to_json(written.sources),
    )


def _index(connection: sqlite3.Connection, message: int, written: MessageContent) -> None:
    if written.state == "writing":
        return
    connection.execute("DELETE FROM message_words WHERE rowid = ?", (message,))
    if written.text:
        connection.execute(
            "INSERT INTO message_words (rowid, text) VALUES (?, ?)", (message, spaced(written.text))
        )
