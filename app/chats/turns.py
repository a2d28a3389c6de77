"""What changes the tree of a chat, or what is shown of it: each change is made from a place, once.

Whoever changes a chat says in which version they have seen it. In any other version nothing is done: a page that
fell behind would change what it does not show.
"""

import sqlite3

from app.chat_messages import ChatVersion, MessageContent
from app.chats.lines import after_all, name_by_question, require_chat
from app.chats.messages import insert, require_in, tree_of, write_on
from app.chats.tree import ROOT
from app.errors import ChatNotFound, StaleChat
from app.messages import Role


def add(
    connection: sqlite3.Connection,
    place: ChatVersion,
    role: Role,
    written: MessageContent,
    parent: int | None,
    now: float,
    title: str,
) -> tuple[ChatVersion, int]:
    """Append a message below the shown leaf, or below `parent`, where it becomes a version beside the others.

    A chat without a name has this title from now on if the message is its first question."""
    shown = _claim(connection, place, now)
    if parent is None:
        parent = shown
    else:
        require_in(tree_of(connection, place.chat), parent)
    message = insert(connection, place.chat, parent, role, written, now)
    if role == "user" and parent == ROOT:
        name_by_question(connection, place.chat, title)
    return _show(connection, place, message), message


def ask(
    connection: sqlite3.Connection,
    place: ChatVersion,
    question: str,
    parent: int | None,
    now: float,
    title: str,
) -> tuple[ChatVersion, int]:
    """Add a question, and the empty reply that is to be written; `title` as in `add`."""
    _, message = add(connection, place, "user", MessageContent(question, "done"), parent, now, title)
    reply = insert(connection, place.chat, message, "assistant", MessageContent(), now)
    return _show(connection, place, reply), reply


def answer_anew(
    connection: sqlite3.Connection, place: ChatVersion, message: int, now: float
) -> tuple[ChatVersion, int]:
    """Add an empty version of a reply."""
    _claim(connection, place, now)
    tree = tree_of(connection, place.chat)
    _require_reply(connection, place.chat, message)
    reply = insert(connection, place.chat, tree.parent(message), "assistant", MessageContent(), now)
    return _show(connection, place, reply), reply


def go_on(connection: sqlite3.Connection, place: ChatVersion, message: int, now: float) -> ChatVersion:
    """Let a reply be written on; it is shown, with what follows it."""
    shown = _claim(connection, place, now)
    _require_reply(connection, place.chat, message)
    tree = tree_of(connection, place.chat)
    write_on(connection, message)
    return _show(connection, place, shown if message in tree.path_to(shown) else tree.newest_below(message))


def show(connection: sqlite3.Connection, place: ChatVersion, message: int) -> ChatVersion:
    """Show this version, and the newest of what follows it."""
    _claim(connection, place, None)
    tree = tree_of(connection, place.chat)
    if message not in tree:
        raise ChatNotFound("message")
    return _show(connection, place, tree.newest_below(message))


def _claim(connection: sqlite3.Connection, place: ChatVersion, now: float | None) -> int:
    """Count the version up, and say where the shown path ends. Raises ChatNotFound, StaleChat."""
    row = require_chat(connection, place.chat)
    if row["version"] != place.version:
        raise StaleChat
    updated = row["updated"] if now is None else after_all(connection, now)
    connection.execute(
        "UPDATE chat SET version = version + 1, updated = ? WHERE id = ?", (updated, place.chat)
    )
    return int(row["shown"])


def _show(connection: sqlite3.Connection, place: ChatVersion, leaf: int) -> ChatVersion:
    """Let the shown path end here; the place of whoever claimed this one."""
    connection.execute("UPDATE chat SET shown = ? WHERE id = ?", (leaf, place.chat))
    return ChatVersion(place.chat, place.version + 1)


def _require_reply(connection: sqlite3.Connection, chat: int, message: int) -> None:
    found = connection.execute(
        "SELECT 1 FROM message WHERE id = ? AND chat = ? AND role = 'assistant'", (message, chat)
    )
    if found.fetchone() is None:
        raise ChatNotFound("reply")
