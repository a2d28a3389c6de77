"""The sidebar: chats as lines, their titles, pins and folders."""

import sqlite3

from app.chat_messages import ChatSettings, ChatSummary, ChatVersion
from app.chats.provenance_json import (
    collections_from_json,
    collections_to_json,
    sampling_from_json,
    sampling_to_json,
)
from app.errors import ChatNotFound
from app.spacing import spaced, storable
from app.titles import title_of

LINE = "id, title, folder, is_pinned, updated"
TICK = 0.001
"""Seconds between two uses while the clock is behind the first."""
FIRST_QUESTION = (
    "SELECT text FROM message WHERE chat = ? AND parent IS NULL AND role = 'user' ORDER BY id DESC LIMIT 1"
)


def create(
    connection: sqlite3.Connection, manner: ChatSettings, folder: str, title: str, now: float
) -> ChatVersion:
    """Begin a chat. One with a title is called so for good."""
    added = connection.execute(
        "INSERT INTO chat (folder, system, sampling, collections, created, updated) VALUES (?, ?, ?, ?, ?, ?)",
        (clean(folder), *_columns(manner), now, after_all(connection, now)),
    )
    chat = int(added.lastrowid or 0)
    set_title(connection, chat, clean(title), bool(clean(title)))
    return ChatVersion(chat)


def after_all(connection: sqlite3.Connection, now: float) -> float:
    """The moment of a chat's use: now, or just behind the last one of all where the clock was set back since."""
    newest = connection.execute("SELECT max(updated) FROM chat").fetchone()[0]
    return now if newest is None or newest <= now else float(newest) + TICK


def lines(connection: sqlite3.Connection) -> tuple[ChatSummary, ...]:
    """All chats but deleted ones: pinned ones first, then by their last use."""
    found = connection.execute(
        f"SELECT {LINE} FROM chat WHERE deleted IS NULL ORDER BY is_pinned DESC, updated DESC, id DESC"
    )
    return tuple(line(row) for row in found)


def line(row: sqlite3.Row) -> ChatSummary:
    """A chat's row as a line."""
    return ChatSummary(row["id"], row["title"], row["folder"], bool(row["is_pinned"]), row["updated"])


def rename(connection: sqlite3.Connection, chat: int, title: str) -> None:
    """Give a chat a title for good; with none it is called by its first question again."""
    require_chat(connection, chat)
    if named := clean(title):
        set_title(connection, chat, named, is_named=True)
        return
    question = connection.execute(FIRST_QUESTION, (chat,)).fetchone()
    set_title(connection, chat, title_of(question["text"]) if question else "", is_named=False)


def name_by_question(connection: sqlite3.Connection, chat: int, title: str) -> None:
    """Call a chat by its first question, which has this title, unless the person has named it."""
    if not require_chat(connection, chat)["is_named"]:
        set_title(connection, chat, title, is_named=False)


def set_title(connection: sqlite3.Connection, chat: int, title: str, is_named: bool) -> None:
    """Write a title, and let it be found."""
    kept = storable(title)
    connection.execute("UPDATE chat SET title = ?, is_named = ? WHERE id = ?", (kept, is_named, chat))
    connection.execute("DELETE FROM chat_words WHERE rowid = ?", (chat,))
    connection.execute("INSERT INTO chat_words (rowid, title) VALUES (?, ?)", (chat, spaced(kept)))


def pin(connection: sqlite3.Connection, chat: int, is_pinned: bool) -> None:
    """Keep a chat at the top, or no longer."""
    require_chat(connection, chat)
    connection.execute("UPDATE chat SET is_pinned = ? WHERE id = ?", (is_pinned, chat))


def move(connection: sqlite3.Connection, chat: int, folder: str) -> None:
    """Put a chat into a folder, "" for none. A folder is there as long as chats are in it."""
    require_chat(connection, chat)
    connection.execute("UPDATE chat SET folder = ? WHERE id = ?", (clean(folder), chat))


def folders(connection: sqlite3.Connection) -> tuple[str, ...]:
    """The folders that have chats, by name."""
    found = connection.execute("SELECT DISTINCT folder FROM chat WHERE deleted IS NULL AND folder <> ''")
    return tuple(sorted((row["folder"] for row in found), key=str.casefold))


def rename_folder(connection: sqlite3.Connection, old: str, new: str) -> None:
    """Move all chats of a folder, deleted ones too; into "" they are in none."""
    connection.execute("UPDATE chat SET folder = ? WHERE folder = ?", (clean(new), old))


def set_manner(connection: sqlite3.Connection, chat: int, manner: ChatSettings) -> None:
    """How the chat is answered from now on."""
    require_chat(connection, chat)
    connection.execute(
        "UPDATE chat SET system = ?, sampling = ?, collections = ? WHERE id = ?", (*_columns(manner), chat)
    )


def manner(connection: sqlite3.Connection, chat: int) -> ChatSettings:
    """How the chat is answered."""
    return manner_of(require_chat(connection, chat))


def manner_of(row: sqlite3.Row) -> ChatSettings:
    """A chat's row as its manner."""
    sampling, collections = sampling_from_json(row["sampling"]), collections_from_json(row["collections"])
    return ChatSettings(row["system"], sampling, collections)


def count_from(connection: sqlite3.Connection, first: int) -> None:
    """Let the ids of chats begin at `first`."""
    connection.execute("INSERT INTO sqlite_sequence (name, seq) VALUES ('chat', ?)", (first - 1,))


def require_chat(connection: sqlite3.Connection, chat: int) -> sqlite3.Row:
    """The chat's row. Raises ChatNotFound for one that is deleted or never was."""
    row: sqlite3.Row | None = connection.execute(
        "SELECT * FROM chat WHERE id = ? AND deleted IS NULL", (chat,)
    ).fetchone()
    if row is None:
        raise ChatNotFound
    return row


def _columns(manner: ChatSettings) -> tuple[str | None, ...]:
    collections = collections_to_json(manner.collections)
    return storable(manner.system), sampling_to_json(manner.sampling), collections


def clean(name: str) -> str:
    """A title or a folder's name on one line."""
    return " ".join(storable(name).split())
