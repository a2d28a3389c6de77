"""Puts chats in order that were saved from a damaged database: some rows and the full-text index are missing."""

import sqlite3

from app.chats.chat_table import unused_title
from app.chats.message_table import tree_of
from app.chats.message_tree import ROOT
from app.values.display_text import title_of
from app.values.text_normalisation import spaced

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
# Ids grow from a parent to its children, so this is the message that was nearest above the missing one.
NEAREST_PARENTS = """
    UPDATE message SET parent = (
        SELECT max(before.id) FROM message AS before WHERE before.chat = message.chat AND before.id < message.parent
    )
    WHERE parent IS NOT NULL
    AND NOT EXISTS (SELECT 1 FROM message AS above
        WHERE above.id = message.parent AND above.chat = message.chat AND above.id < message.id)
"""
WITHOUT_SHOWN = """
    SELECT id FROM chat WHERE deleted IS NULL
    AND NOT EXISTS (SELECT 1 FROM message WHERE message.id = chat.shown AND message.chat = chat.id)
"""


def mend_chats(connection: sqlite3.Connection) -> None:
    """Gives each message a chat and a place in it, and makes the full-text index."""
    connection.execute(ADOPT_MESSAGES)
    connection.execute(NEAREST_PARENTS)
    connection.execute("UPDATE message SET state = 'interrupted', note = ? WHERE state = ''", (CUT,))
    for chat, question in connection.execute(FIRST_QUESTIONS).fetchall():
        title = unused_title(connection, title_of(question))
        connection.execute("UPDATE chat SET title = ? WHERE id = ?", (title, chat))
    for (chat,) in connection.execute(WITHOUT_SHOWN).fetchall():
        leaf = tree_of(connection, chat).newest_below(ROOT)
        connection.execute("UPDATE chat SET shown = ? WHERE id = ?", (leaf, chat))
    _make_index(connection)


def _make_index(connection: sqlite3.Connection) -> None:
    connection.create_function("spaced", 1, spaced, deterministic=True)
    connection.execute(
        "INSERT INTO chat_words (rowid, title) SELECT id, spaced(title) FROM chat WHERE deleted IS NULL"
    )
    connection.execute(
        "INSERT INTO message_words (rowid, text)"
        " SELECT id, spaced(text) FROM message WHERE state <> 'writing' AND text <> ''"
    )
