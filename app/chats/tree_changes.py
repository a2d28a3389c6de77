"""Changes to a chat's message tree and its shown path. Each takes the ChatVersion that the page has seen.

With an outdated version nothing is changed and StaleChat is raised: the page would change what it does not show.
"""

import sqlite3

from app.chats.chat_table import next_use, require_chat, set_question_title
from app.chats.deletion import take_out
from app.chats.message_table import insert, reopen, require_in, tree_of
from app.chats.message_tree import ROOT
from app.errors import ChatNotFound, StaleChat
from app.values.chat import ChatVersion, MessageContent
from app.values.messages import Role


def add(
    connection: sqlite3.Connection,
    version: ChatVersion,
    role: Role,
    content: MessageContent,
    parent: int | None,
    now: float,
    title: str,
) -> tuple[ChatVersion, int]:
    """Adds a message below the shown leaf, or below `parent`, where it becomes another version.

    If it is the first question of an unnamed chat, the chat takes this title."""
    shown = _claim(connection, version, now)
    if parent is None:
        parent = shown
    else:
        require_in(tree_of(connection, version.chat), parent)
    message = insert(connection, version.chat, parent, role, content, now)
    if role == "user" and parent == ROOT:
        set_question_title(connection, version.chat, title)
    return _show(connection, version, message), message


def ask(
    connection: sqlite3.Connection,
    version: ChatVersion,
    question: str,
    parent: int | None,
    now: float,
    title: str,
) -> tuple[ChatVersion, int]:
    """Adds a question and the empty reply to it; `title` as in `add`."""
    _, message = add(connection, version, "user", MessageContent(question, "done"), parent, now, title)
    reply = insert(connection, version.chat, message, "assistant", MessageContent(), now)
    return _show(connection, version, reply), reply


def regenerate(
    connection: sqlite3.Connection, version: ChatVersion, message: int, now: float
) -> tuple[ChatVersion, int]:
    """Adds an empty version of a reply."""
    _claim(connection, version, now)
    tree = tree_of(connection, version.chat)
    _require_reply(connection, version.chat, message)
    reply = insert(connection, version.chat, tree.parent(message), "assistant", MessageContent(), now)
    return _show(connection, version, reply), reply


def continue_reply(
    connection: sqlite3.Connection, version: ChatVersion, message: int, now: float
) -> ChatVersion:
    """Puts a reply back into state "writing" and shows it, with what follows."""
    shown = _claim(connection, version, now)
    _require_reply(connection, version.chat, message)
    tree = tree_of(connection, version.chat)
    reopen(connection, message)
    return _show(connection, version, shown if message in tree.path_to(shown) else tree.newest_below(message))


def show(connection: sqlite3.Connection, version: ChatVersion, message: int) -> ChatVersion:
    """Shows this version of a message, and the newest of what follows."""
    _claim(connection, version, None)
    tree = tree_of(connection, version.chat)
    if message not in tree:
        raise ChatNotFound("message")
    return _show(connection, version, tree.newest_below(message))


def remove(connection: sqlite3.Connection, version: ChatVersion, message: int, now: float) -> ChatVersion:
    """Deletes a message with all that follows it. Another version of it is shown then, or what is before it."""
    shown = _claim(connection, version, now)
    tree = tree_of(connection, version.chat)
    if message not in tree:
        raise ChatNotFound("message")
    others = [other for other in tree.versions(message) if other != message]
    if message in tree.path_to(shown):
        shown = tree.newest_below(others[-1]) if others else tree.parent(message)
    take_out(connection, message, tree.all_below(message))
    return _show(connection, version, shown)


def _claim(connection: sqlite3.Connection, version: ChatVersion, now: float | None) -> int:
    """Increments the version and returns the shown leaf. Raises ChatNotFound, StaleChat."""
    row = require_chat(connection, version.chat)
    if row["version"] != version.number:
        raise StaleChat
    updated = row["updated"] if now is None else next_use(connection, now)
    connection.execute(
        "UPDATE chat SET version = version + 1, updated = ? WHERE id = ?", (updated, version.chat)
    )
    return int(row["shown"])


def _show(connection: sqlite3.Connection, version: ChatVersion, leaf: int) -> ChatVersion:
    """Ends the shown path here. Returns the version after `_claim`."""
    connection.execute("UPDATE chat SET shown = ? WHERE id = ?", (leaf, version.chat))
    return ChatVersion(version.chat, version.number + 1)


def _require_reply(connection: sqlite3.Connection, chat: int, message: int) -> None:
    found = connection.execute(
        "SELECT 1 FROM message WHERE id = ? AND chat = ? AND role = 'assistant'", (message, chat)
    )
    if found.fetchone() is None:
        raise ChatNotFound("reply")
