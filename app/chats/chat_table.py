"""The table of chats: titles, folders, pins, and when each was last used. The sidebar lists it."""

import sqlite3

from app.errors import ChatNotFound
from app.values.chat import ChatSummary, ChatVersion
from app.values.display_text import title_of
from app.values.text_normalisation import spaced, storable

SUMMARY = "id, title, folder, is_pinned, updated"
TICK = 0.001
"""Seconds between two uses while the clock is behind the last use."""
FIRST_QUESTION = (
    "SELECT text FROM message WHERE chat = ? AND parent IS NULL AND role = 'user' ORDER BY id DESC LIMIT 1"
)


def create(
    connection: sqlite3.Connection, settings: tuple[str | None, ...], folder: str, title: str, now: float
) -> ChatVersion:
    """Creates a chat; `settings` are the columns of `columns_of`. A given title stays."""
    added = connection.execute(
        "INSERT INTO chat (folder, system, sampling, collections, json_answers, created, updated) "
        "VALUES (?, ?, ?, ?, ?, ?, ?)",
        (one_line(folder), *settings, now, next_use(connection, now)),
    )
    chat = int(added.lastrowid or 0)
    set_title(connection, chat, one_line(title), bool(one_line(title)))
    return ChatVersion(chat)


def hide_new(connection: sqlite3.Connection, chat: int) -> None:
    """Hides a chat whose messages are still to come; if the process is killed, the next start erases it."""
    connection.execute("UPDATE chat SET deleted = 1 WHERE id = ?", (chat,))


def is_new(connection: sqlite3.Connection, chat: int) -> bool:
    """Whether a chat is hidden like that, and nobody has begun to erase it."""
    return (
        connection.execute("SELECT 1 FROM chat WHERE id = ? AND deleted = 1", (chat,)).fetchone() is not None
    )


def next_use(connection: sqlite3.Connection, now: float) -> float:
    """The time of a chat's use: now, or just after the last use of all if the clock was set back since."""
    newest = connection.execute("SELECT max(updated) FROM chat").fetchone()[0]
    return now if newest is None or newest <= now else float(newest) + TICK


def summaries(connection: sqlite3.Connection) -> tuple[ChatSummary, ...]:
    """All chats except deleted ones: pinned ones first, then by their last use."""
    rows = connection.execute(
        f"SELECT {SUMMARY} FROM chat WHERE deleted IS NULL ORDER BY is_pinned DESC, updated DESC, id DESC"
    )
    return tuple(map(summary_of, rows))


def summary_of(row: sqlite3.Row) -> ChatSummary:
    """The summary in a chat's row."""
    return ChatSummary(row["id"], row["title"], row["folder"], bool(row["is_pinned"]), row["updated"])


def rename(connection: sqlite3.Connection, chat: int, title: str) -> None:
    """Gives a chat a title for good; with "" its first question is its title again."""
    require_chat(connection, chat)
    if named := one_line(title):
        set_title(connection, chat, named, is_named=True)
        return
    question = connection.execute(FIRST_QUESTION, (chat,)).fetchone()
    set_title(connection, chat, title_of(question["text"]) if question else "", is_named=False)


def set_question_title(connection: sqlite3.Connection, chat: int, title: str) -> None:
    """Takes over the title of the first question, unless the person has named the chat."""
    if not require_chat(connection, chat)["is_named"]:
        set_title(connection, chat, "", is_named=False)  # its own old title is no other chat's
        set_title(connection, chat, unused_title(connection, title), is_named=False)


def suggest_title(connection: sqlite3.Connection, chat: int, title: str) -> None:
    """Takes over a title that was written for the chat, unless the person has named it."""
    set_question_title(connection, chat, one_line(title))


def set_title(connection: sqlite3.Connection, chat: int, title: str, is_named: bool) -> None:
    """Writes a title and its full-text index."""
    stored = storable(title)
    connection.execute("UPDATE chat SET title = ?, is_named = ? WHERE id = ?", (stored, is_named, chat))
    connection.execute("DELETE FROM chat_words WHERE rowid = ?", (chat,))
    connection.execute("INSERT INTO chat_words (rowid, title) VALUES (?, ?)", (chat, spaced(stored)))


def unused_title(connection: sqlite3.Connection, title: str) -> str:
    """The title, with the first free number behind it where another chat has it: Dinner, Dinner (2), Dinner (3)."""
    rows = connection.execute("SELECT title FROM chat WHERE deleted IS NULL AND title <> ''")
    taken, number, free = {row["title"] for row in rows}, 2, title
    while free in taken:
        free, number = f"{title} ({number})", number + 1
    return free


def pin(connection: sqlite3.Connection, chat: int, is_pinned: bool) -> None:
    """Pins a chat to the top of the list, or unpins it."""
    require_chat(connection, chat)
    connection.execute("UPDATE chat SET is_pinned = ? WHERE id = ?", (is_pinned, chat))


def move(connection: sqlite3.Connection, chat: int, folder: str) -> None:
    """Moves a chat into a folder, "" for none. A folder that does not exist yet is made."""
    require_chat(connection, chat)
    connection.execute("UPDATE chat SET folder = ? WHERE id = ?", (one_line(folder), chat))


def count_from(connection: sqlite3.Connection, first: int) -> None:
    """Sets the id of the first chat."""
    connection.execute("INSERT INTO sqlite_sequence (name, seq) VALUES ('chat', ?)", (first - 1,))


def require_chat(connection: sqlite3.Connection, chat: int) -> sqlite3.Row:
    """The chat's row. Raises ChatNotFound for a chat that is deleted or unknown."""
    row: sqlite3.Row | None = connection.execute(
        "SELECT * FROM chat WHERE id = ? AND deleted IS NULL", (chat,)
    ).fetchone()
    if row is None:
        raise ChatNotFound
    return row


def one_line(name: str) -> str:
    """A title or a folder's name on one line."""
    return " ".join(storable(name).split())
