"""Chats found by words in their titles and messages, the newest first.

Messages are read from the index newest first until enough chats are there: a word that is everywhere costs no more
than a rare one, which ranking by relevance would have to weigh in every place where it stands.
"""

import sqlite3
from collections.abc import Iterator
from itertools import islice

from app.chat_messages import ChatSearchResult
from app.chats.lines import LINE, line
from app.chats.words import excerpt, question

IN_TITLES = (
    f"SELECT {LINE} FROM chat WHERE deleted IS NULL AND id IN"
    " (SELECT rowid FROM chat_words WHERE chat_words MATCH ?) ORDER BY updated DESC, id DESC LIMIT ?"
)
# CROSS JOIN: in this order. The index has what is asked; a message lies far from the next one found.
IN_MESSAGES = (
    "SELECT message.chat, message.id FROM message_words"
    " CROSS JOIN message INDEXED BY message_chat ON message.id = message_words.rowid"
    " WHERE message_words MATCH ? ORDER BY message_words.rowid DESC"
)


def search(connection: sqlite3.Connection, words: str, limit: int) -> tuple[ChatSearchResult, ...]:
    """Chats with all of these words in their title, then those with all in one message."""
    asked = question(words)
    if not asked:
        return ()
    titled = [
        ChatSearchResult(line(row), excerpt(row["title"], words))
        for row in connection.execute(IN_TITLES, (asked, limit)).fetchall()
    ]
    found = _in_messages(connection, asked, {one.line.id for one in titled})
    told = [_found(connection, *one, words) for one in islice(found, limit - len(titled))]
    return (*titled, *sorted(told, key=lambda one: one.line.updated, reverse=True))


def _in_messages(connection: sqlite3.Connection, asked: str, seen: set[int]) -> Iterator[tuple[int, int]]:
    """Each chat that has the words with the newest message that has them, but for the chats seen already."""
    deleted = {row["id"] for row in connection.execute("SELECT id FROM chat WHERE deleted IS NOT NULL")}
    done = seen | deleted
    cursor = connection.cursor()
    cursor.row_factory = None  # thousands of rows, of which two numbers are read
    for chat, message in cursor.execute(IN_MESSAGES, (asked,)):
        if chat not in done:
            done.add(chat)
            yield chat, message


def _found(connection: sqlite3.Connection, chat: int, message: int, words: str) -> ChatSearchResult:
    row = connection.execute(f"SELECT {LINE} FROM chat WHERE id = ?", (chat,)).fetchone()
    text = connection.execute("SELECT text FROM message WHERE id = ?", (message,)).fetchone()
    return ChatSearchResult(line(row), excerpt(text["text"], words))
