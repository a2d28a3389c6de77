"""The tables of chats, folders, drafts, queued messages and presets.

The draft of a chat that is not stored yet has the chat id 0. A queued message was sent while a reply was being
written, and waits for the end of the reply."""

import json
import sqlite3
from collections.abc import Callable
from itertools import pairwise

from app.chats.message_table import ROOT, tree_of, value_from_json, value_to_json
from app.errors import ChatNotFound
from app.values.chat import ChatPreset, ChatSettings, ChatSummary, ChatVersion, QueuedMessage
from app.values.display_text import numbered, title_of
from app.values.json_answers import JsonAnswers
from app.values.messages import Sampling
from app.values.text_normalisation import spaced, storable

SUMMARY = "id, title, folder, is_pinned, updated"
TICK = 0.001
"""Seconds that are added to the newest time of use if the clock was set back."""
FIRST_QUESTION = (
    "SELECT text FROM message WHERE chat = ? AND parent IS NULL AND role = 'user' ORDER BY id DESC LIMIT 1"
)
CUT = "The rest of this message could not be read."
ADOPT_MESSAGES = """
    INSERT INTO chat (id, created, updated)
    SELECT chat, min(created), max(created) FROM message WHERE chat NOT IN (SELECT id FROM chat) GROUP BY chat
"""
FIRST_QUESTIONS = """
    SELECT chat.id, message.text FROM chat JOIN message ON message.id =
        (SELECT id FROM message WHERE chat = chat.id AND role = 'user' ORDER BY id LIMIT 1)
    WHERE chat.title = '' AND chat.deleted IS NULL
"""
# A message whose parent is missing or impossible gets a new parent: the newest message of the chat that is older
# than both the message and its old parent.
NEAREST_PARENTS = """
    UPDATE message SET parent = (
        SELECT max(before.id) FROM message AS before
        WHERE before.chat = message.chat AND before.id < min(message.parent, message.id)
    )
    WHERE parent IS NOT NULL
    AND NOT EXISTS (SELECT 1 FROM message AS above
        WHERE above.id = message.parent AND above.chat = message.chat AND above.id < message.id)
"""
WITHOUT_SHOWN = """
    SELECT id FROM chat WHERE deleted IS NULL
    AND NOT EXISTS (SELECT 1 FROM message WHERE message.id = chat.shown AND message.chat = chat.id)
"""

# Chats


def create(
    connection: sqlite3.Connection,
    now: float,
    settings: ChatSettings | None = None,
    folder: str = "",
    title: str = "",
) -> ChatVersion:
    """Creates a chat. If no title is given, its first question becomes its title."""
    return create_with(connection, now, columns_of(settings or ChatSettings()), folder, title)


def create_with(
    connection: sqlite3.Connection, now: float, settings: tuple[str | None, ...], folder: str, title: str
) -> ChatVersion:
    """Creates a chat. `settings` are the values that `columns_of` returns."""
    added = connection.execute(
        "INSERT INTO chat (folder, system, sampling, collections, json_answers, tools, created, updated) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (one_line(folder), *settings, now, next_use(connection, now)),
    )
    chat = int(added.lastrowid or 0)
    set_title(connection, chat, one_line(title), bool(one_line(title)))
    return ChatVersion(chat)


def next_use(connection: sqlite3.Connection, now: float) -> float:
    """Returns the time of use to store for a chat: now or, if the clock was set back, TICK after the newest use."""
    newest = connection.execute("SELECT max(updated) FROM chat").fetchone()[0]
    return now if newest is None or newest <= now else float(newest) + TICK


def summaries(connection: sqlite3.Connection) -> tuple[ChatSummary, ...]:
    """Lists all chats that are not deleted: pinned chats first, then by their last use."""
    rows = connection.execute(
        f"SELECT {SUMMARY} FROM chat WHERE deleted IS NULL ORDER BY is_pinned DESC, updated DESC, id DESC"
    )
    return tuple(map(summary_of, rows))


def summary_or_none(connection: sqlite3.Connection, chat: int) -> ChatSummary | None:
    """Returns a chat's summary; None if it is deleted or unknown."""
    row = connection.execute(
        f"SELECT {SUMMARY} FROM chat WHERE id = ? AND deleted IS NULL", (chat,)
    ).fetchone()
    return summary_of(row) if row else None


def summary_of(row: sqlite3.Row) -> ChatSummary:
    return ChatSummary(row["id"], row["title"], row["folder"], bool(row["is_pinned"]), row["updated"])


def rename(connection: sqlite3.Connection, chat: int, title: str) -> None:
    """Gives a chat a title that no suggestion replaces; "" stands for a title made from its first question."""
    require_chat(connection, chat)
    if named := one_line(title):
        set_title(connection, chat, named, is_named=True)
        return
    question = connection.execute(FIRST_QUESTION, (chat,)).fetchone()
    set_title(connection, chat, title_of(question["text"]) if question else "", is_named=False)


def suggest_title(connection: sqlite3.Connection, chat: int, title: str) -> None:
    """Gives a chat this title, made unique, unless the user has named the chat."""
    if not require_chat(connection, chat)["is_named"]:
        set_title(connection, chat, "", is_named=False)  # so that its old title does not count as taken
        set_title(connection, chat, unused_title(connection, one_line(title)), is_named=False)


def set_title(connection: sqlite3.Connection, chat: int, title: str, is_named: bool) -> None:
    stored = storable(title)
    connection.execute("UPDATE chat SET title = ?, is_named = ? WHERE id = ?", (stored, is_named, chat))
    connection.execute("DELETE FROM chat_words WHERE rowid = ?", (chat,))
    connection.execute("INSERT INTO chat_words (rowid, title) VALUES (?, ?)", (chat, spaced(stored)))


def unused_title(connection: sqlite3.Connection, title: str) -> str:
    """Returns a title, with the first free number if another chat has it: Dinner, Dinner (2), Dinner (3)."""
    rows = connection.execute("SELECT title FROM chat WHERE deleted IS NULL AND title <> ''")
    taken = {row["title"] for row in rows}
    return next(name for name in numbered(title) if name not in taken)


def pin(connection: sqlite3.Connection, chat: int, is_pinned: bool) -> None:
    require_chat(connection, chat)
    connection.execute("UPDATE chat SET is_pinned = ? WHERE id = ?", (is_pinned, chat))


def move(connection: sqlite3.Connection, chat: int, folder: str) -> None:
    """Moves a chat into a folder, which is made if it is missing; "" takes the chat out of its folder."""
    require_chat(connection, chat)
    connection.execute("UPDATE chat SET folder = ? WHERE id = ?", (one_line(folder), chat))


def count_from(connection: sqlite3.Connection, first: int) -> None:
    """Make the ids of an empty store's chats and messages begin at `first`, so that no other store has them."""
    counted = [("chat", first - 1), ("message", first - 1)]
    connection.executemany("INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)", counted)


def require_chat(connection: sqlite3.Connection, chat: int) -> sqlite3.Row:
    """Returns the chat's row. Raises ChatNotFound for a chat that is deleted or unknown."""
    row: sqlite3.Row | None = connection.execute(
        "SELECT * FROM chat WHERE id = ? AND deleted IS NULL", (chat,)
    ).fetchone()
    if row is None:
        raise ChatNotFound
    return row


def one_line(name: str) -> str:
    """Returns a title or a folder's name as one line: line ends and repeated blanks become single blanks."""
    return " ".join(storable(name).split())


# Folders


def folders(connection: sqlite3.Connection) -> tuple[str, ...]:
    """Lists all folders by name, including empty folders."""
    rows = connection.execute("SELECT name FROM folder")
    return tuple(sorted((row["name"] for row in rows), key=str.casefold))


def make_folder(connection: sqlite3.Connection, name: str) -> None:
    """Makes an empty folder, unless a folder of this name exists or the name is empty."""
    if folder := one_line(name):
        connection.execute("INSERT OR IGNORE INTO folder (name) VALUES (?)", (folder,))


def rename_folder(connection: sqlite3.Connection, old: str, new: str) -> None:
    """Renames a folder for all its chats, including deleted chats; "" takes the chats out of the folder."""
    connection.execute("DELETE FROM folder WHERE name = ?", (old,))
    connection.execute("UPDATE chat SET folder = ? WHERE folder = ?", (one_line(new), old))
    make_folder(connection, new)


def remove_folder(connection: sqlite3.Connection, name: str) -> tuple[int, ...]:
    """Removes a folder, but not its chats. Returns the ids of the chats."""
    chats = in_folder(connection, name)
    rename_folder(connection, name, "")
    return chats


def in_folder(connection: sqlite3.Connection, name: str) -> tuple[int, ...]:
    """Returns the ids of the chats in a folder, without deleted chats."""
    rows = connection.execute("SELECT id FROM chat WHERE folder = ? AND deleted IS NULL ORDER BY id", (name,))
    return tuple(row["id"] for row in rows)


# Drafts


def draft(connection: sqlite3.Connection, chat: int) -> str:
    row = connection.execute("SELECT text FROM draft WHERE chat = ?", (chat,)).fetchone()
    return str(row["text"]) if row else ""


def set_draft(connection: sqlite3.Connection, chat: int, text: str) -> None:
    """Replaces the chat's draft; "" deletes it. A chat that is erased or unknown gets no new draft."""
    connection.execute("DELETE FROM draft WHERE chat = ?", (chat,))
    if text:
        connection.execute(
            "INSERT INTO draft (chat, text) SELECT :chat, :text"
            " WHERE :chat = 0 OR EXISTS (SELECT 1 FROM chat WHERE id = :chat AND (deleted IS NULL OR deleted > 0))",
            {"chat": chat, "text": storable(text)},
        )


# Messages that wait to be sent


def queued(connection: sqlite3.Connection, chat: int) -> tuple[QueuedMessage, ...]:
    rows = connection.execute("SELECT id, text FROM queued WHERE chat = ? ORDER BY id", (chat,))
    return tuple(QueuedMessage(row["id"], row["text"]) for row in rows)


def add_queued(connection: sqlite3.Connection, chat: int, text: str, message: int | None = None) -> None:
    """Adds a message after the chat's waiting messages. Raises ChatNotFound.

    A message that was removed from the queue is added with its old id, which restores its position."""
    require_chat(connection, chat)
    row = (message, chat, storable(text))
    connection.execute("INSERT INTO queued (id, chat, text) VALUES (?, ?, ?)", row)


def replace_queued(connection: sqlite3.Connection, message: int, text: str = "") -> str:
    """Replaces a waiting message's text; "" removes the message. Returns the former text; "" if there was none."""
    row = connection.execute("SELECT text FROM queued WHERE id = ?", (message,)).fetchone()
    if text:
        connection.execute("UPDATE queued SET text = ? WHERE id = ?", (storable(text), message))
    else:
        connection.execute("DELETE FROM queued WHERE id = ?", (message,))
    return str(row["text"]) if row else ""


def advance_queued(connection: sqlite3.Connection, chat: int, message: int) -> None:
    """Moves the text of a waiting message one position forward. The ids of the queue keep their order."""
    waiting = queued(connection, chat)
    for before, after in pairwise(waiting):
        if after.id == message:
            replace_queued(connection, before.id, after.text)
            replace_queued(connection, after.id, before.text)


# Settings and presets


def settings(connection: sqlite3.Connection, chat: int) -> ChatSettings:
    return settings_of(require_chat(connection, chat))


def change_settings(
    connection: sqlite3.Connection, chat: int, change: Callable[[ChatSettings], ChatSettings]
) -> None:
    """Changes a chat's settings, which are read and written in one transaction."""
    connection.execute(
        "UPDATE chat SET system = ?, sampling = ?, collections = ?, json_answers = ?, tools = ? WHERE id = ?",
        (*columns_of(change(settings(connection, chat))), chat),
    )


def used_collections(connection: sqlite3.Connection) -> frozenset[int]:
    """Returns the ids of all collections that some chat searches; deleted chats do not count."""
    rows = connection.execute("SELECT collections FROM chat WHERE deleted IS NULL AND collections <> ''")
    return frozenset(one for row in rows for one in collections_from_json(row["collections"]))


def settings_of(row: sqlite3.Row) -> ChatSettings:
    return ChatSettings(
        row["system"],
        value_from_json(Sampling, row["sampling"]),
        collections_from_json(row["collections"]),
        value_from_json(JsonAnswers, row["json_answers"]) or JsonAnswers(),
        value_from_json(tuple[str, ...], row["tools"] or None) or (),
    )


def columns_of(settings: ChatSettings) -> tuple[str | None, ...]:
    """Returns settings as values of the columns system, sampling, collections, json_answers and tools."""
    collections = json.dumps(settings.collections) if settings.collections else ""
    json_answers = None if settings.json_answers == JsonAnswers() else value_to_json(settings.json_answers)
    tools = storable(json.dumps(settings.tools)) if settings.tools else ""
    return storable(settings.system), value_to_json(settings.sampling), collections, json_answers, tools


def collections_from_json(text: str) -> tuple[int, ...]:
    return value_from_json(tuple[int, ...], text or None) or ()


def presets(connection: sqlite3.Connection) -> tuple[ChatPreset, ...]:
    """Lists all presets, sorted by name."""
    rows = connection.execute("SELECT name, system, sampling FROM preset")
    found = (
        ChatPreset(row["name"], ChatSettings(row["system"], value_from_json(Sampling, row["sampling"])))
        for row in rows
    )
    return tuple(sorted(found, key=lambda preset: preset.name.casefold()))


def save_preset(connection: sqlite3.Connection, preset: ChatPreset) -> None:
    """Saves a preset, which replaces a preset of the same name."""
    system, sampling, *_ = columns_of(preset.settings)
    connection.execute(
        "INSERT OR REPLACE INTO preset (name, system, sampling) VALUES (?, ?, ?)",
        (one_line(preset.name), system, sampling),
    )


def delete_preset(connection: sqlite3.Connection, name: str) -> None:
    connection.execute("DELETE FROM preset WHERE name = ?", (one_line(name),))


# After a rescue


def mend_chats(connection: sqlite3.Connection) -> None:
    """Repairs chats that were saved from a damaged database, where some rows and the full-text index are missing.

    Adds missing chats and titles, replaces missing parents and shown messages, marks cut messages, and builds the
    index."""
    connection.execute(ADOPT_MESSAGES)
    connection.execute(NEAREST_PARENTS)
    connection.execute("UPDATE message SET state = 'interrupted', note = ? WHERE state = ''", (CUT,))
    for chat, question in connection.execute(FIRST_QUESTIONS).fetchall():
        title = unused_title(connection, title_of(question))
        connection.execute("UPDATE chat SET title = ? WHERE id = ?", (title, chat))
    for (chat,) in connection.execute(WITHOUT_SHOWN).fetchall():
        leaf = tree_of(connection, chat).newest_below(ROOT)
        connection.execute("UPDATE chat SET shown = ? WHERE id = ?", (leaf, chat))
    connection.create_function("spaced", 1, spaced, deterministic=True)
    connection.execute(
        "INSERT INTO chat_words (rowid, title) SELECT id, spaced(title) FROM chat WHERE deleted IS NULL"
    )
    connection.execute(
        "INSERT INTO message_words (rowid, text)"
        " SELECT id, spaced(text) FROM message WHERE state <> 'writing' AND text <> ''"
    )
