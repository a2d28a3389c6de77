"""Paths in a chat's message tree: the one that is shown, and the texts of a path that the model reads."""

import sqlite3

from app.chats.chat_settings import settings_of
from app.chats.chat_table import require_chat
from app.chats.message_table import chat_of, require_in, stored, tree_of
from app.chats.message_tree import ROOT, MessageTree
from app.values.chat import ChatVersion, StoredMessage, Thread
from app.values.messages import Message, Role

TEXTS = "SELECT id, role, text, state FROM message WHERE chat = ?"


def thread(connection: sqlite3.Connection, chat: int, newest: int = 50) -> Thread:
    """The newest messages of the shown path. Raises ChatNotFound."""
    row = require_chat(connection, chat)
    tree = tree_of(connection, chat)
    path = tree.path_to(_shown_leaf(row, tree))
    part = path[max(len(path) - newest, 0) :]
    return Thread(
        ChatVersion(chat, row["version"]),
        row["title"],
        settings_of(row),
        stored(connection, part, tree),
        len(path) - len(part),
    )


def message(connection: sqlite3.Connection, wanted: int) -> StoredMessage:
    """One message, shown or not. Raises ChatNotFound."""
    tree = tree_of(connection, chat_of(connection, wanted))
    return stored(connection, [wanted], tree)[0]


def path_texts(connection: sqlite3.Connection, chat: int, upto: int | None = None) -> tuple[Message, ...]:
    """What the model reads down to a message, by default the shown leaf, without the system prompt.

    Replies that failed or stayed empty are left out with their questions. An empty last reply is to be written: it
    is left out, and its question stays."""
    return _texts(_prompt_path(_path(connection, chat, upto)))


def path_ids(connection: sqlite3.Connection, chat: int, upto: int) -> tuple[int, ...]:
    """The ids of the messages of `path_texts`."""
    return tuple(row["id"] for row in _prompt_path(_path(connection, chat, upto)))


def texts_before(connection: sqlite3.Connection, chat: int, upto: int | None = None) -> tuple[Message, ...]:
    """What the model reads before a new question below a message, by default below the shown leaf."""
    return _texts(_without_unanswered(_without_failed_turns(_path(connection, chat, upto)), "user"))


def _path(connection: sqlite3.Connection, chat: int, upto: int | None) -> list[sqlite3.Row]:
    """All messages down to this one, except system prompts, which are in the chat's settings."""
    row = require_chat(connection, chat)
    tree = tree_of(connection, chat)
    end = _shown_leaf(row, tree) if upto is None else upto
    require_in(tree, end)
    rows = {row["id"]: row for row in connection.execute(TEXTS, (chat,))}
    path = [rows[message] for message in tree.path_to(end)]
    return [row for row in path if row["role"] != "system"]


def _texts(path: list[sqlite3.Row]) -> tuple[Message, ...]:
    return tuple(Message(row["role"], row["text"]) for row in path)


def _shown_leaf(row: sqlite3.Row, tree: MessageTree) -> int:
    """The end of the shown path. A chat can be opened whatever another program wrote there."""
    return int(row["shown"]) if row["shown"] in tree else tree.newest_below(ROOT)


def _prompt_path(path: list[sqlite3.Row]) -> list[sqlite3.Row]:
    """The path with its last message as it is: the person asks about it now. An empty last reply is left out."""
    if path and path[-1]["role"] == "assistant" and not path[-1]["text"]:
        path = path[:-1]
    before = _without_failed_turns(path[:-1])
    return [*_without_unanswered(before, path[-1]["role"]), *path[-1:]] if path else []


def _without_unanswered(path: list[sqlite3.Row], then: Role) -> list[sqlite3.Row]:
    """The path without questions whose answers were deleted: some templates refuse two in a row. A message by
    `then` follows."""
    roles = [*(row["role"] for row in path), then]
    return [row for at, row in enumerate(path) if roles[at : at + 2] != ["user", "user"]]


def _without_failed_turns(path: list[sqlite3.Row]) -> list[sqlite3.Row]:
    """The path without replies that failed or stayed empty, and without their questions."""
    kept: list[sqlite3.Row] = []
    for row in path:
        if row["role"] != "assistant" or (row["text"].strip() and row["state"] != "failed"):
            kept.append(row)
        elif kept and kept[-1]["role"] == "user":
            kept.pop()
    return kept
