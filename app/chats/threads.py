"""What is shown of a chat, and what its model reads."""

import sqlite3

from app.chat_messages import ChatVersion, StoredMessage, Thread
from app.chats.lines import manner_of, require_chat
from app.chats.messages import chat_of, require_in, stored, tree_of
from app.chats.tree import ROOT, Tree
from app.messages import Message

TEXTS = "SELECT id, role, text, state FROM message WHERE chat = ?"


def thread(connection: sqlite3.Connection, chat: int, newest: int) -> Thread:
    """The newest messages of the path that is shown. Raises ChatNotFound."""
    row = require_chat(connection, chat)
    tree = tree_of(connection, chat)
    path = tree.path_to(_shown(row, tree))
    part = path[max(len(path) - newest, 0) :]
    return Thread(
        ChatVersion(chat, row["version"]),
        row["title"],
        manner_of(row),
        stored(connection, part, tree),
        len(path) - len(part),
    )


def message(connection: sqlite3.Connection, wanted: int) -> StoredMessage:
    """One message, wherever it is. Raises ChatNotFound."""
    tree = tree_of(connection, chat_of(connection, wanted))
    return stored(connection, [wanted], tree)[0]


def path_texts(connection: sqlite3.Connection, chat: int, upto: int | None) -> tuple[Message, ...]:
    """What a model reads to go on at a message, or at the shown leaf: that message is the last one.

    A reply of which nothing is written yet is what the model is to write, so it is left out."""
    return _texts(_read_to(_path(connection, chat, upto)))


def path_ids(connection: sqlite3.Connection, chat: int, upto: int) -> tuple[int, ...]:
    """Which messages these texts are."""
    return tuple(row["id"] for row in _read_to(_path(connection, chat, upto)))


def texts_before(connection: sqlite3.Connection, chat: int, upto: int | None) -> tuple[Message, ...]:
    """What a model reads before a new question below a message, or below the shown leaf."""
    return _texts(_answered(_path(connection, chat, upto)))


def _path(connection: sqlite3.Connection, chat: int, upto: int | None) -> list[sqlite3.Row]:
    """All messages down to this one but system prompts, which a chat has beside them."""
    row = require_chat(connection, chat)
    tree = tree_of(connection, chat)
    end = _shown(row, tree) if upto is None else upto
    require_in(tree, end)
    rows = {row["id"]: row for row in connection.execute(TEXTS, (chat,))}
    path = [rows[message] for message in tree.path_to(end)]
    return [row for row in path if row["role"] != "system"]


def _texts(path: list[sqlite3.Row]) -> tuple[Message, ...]:
    return tuple(Message(row["role"], row["text"]) for row in path)


def _shown(row: sqlite3.Row, tree: Tree) -> int:
    """Where the shown path ends; whatever a foreign hand wrote there, a chat can be opened."""
    return int(row["shown"]) if row["shown"] in tree else tree.newest_below(ROOT)


def _read_to(path: list[sqlite3.Row]) -> list[sqlite3.Row]:
    """The path to its last message, which counts as it is: it is what the person asks about now."""
    if path and path[-1]["role"] == "assistant" and not path[-1]["text"]:
        path = path[:-1]
    return [*_answered(path[:-1]), *path[-1:]]


def _answered(path: list[sqlite3.Row]) -> list[sqlite3.Row]:
    """The path without replies that failed or stayed empty, and without the questions that they were to answer."""
    kept: list[sqlite3.Row] = []
    for row in path:
        if row["role"] != "assistant" or (row["text"].strip() and row["state"] != "failed"):
            kept.append(row)
        elif kept and kept[-1]["role"] == "user":
            kept.pop()
    return kept
