"""Full-text search of chats: the FTS5 query, the chats found by title or message, and their excerpts.

Messages are read from the index newest first until enough chats are found: a word that stands everywhere costs no
more than a rare one. Ranking by relevance would have to read every match.

Messages are indexed as text_normalisation.py spaces them; a word without spaces is a phrase of its characters:

    query       全文 fts              ->  "全  文" "fts"*
"""

import re
import sqlite3
import unicodedata
from collections.abc import Iterator
from itertools import islice
from string import ascii_lowercase, ascii_uppercase

from app.chat_messages import ChatSearchResult
from app.chats.chat_table import SUMMARY, summary_of
from app.text_normalisation import UNSPACED, normalized, spaced

BEFORE, AFTER = "\x02", "\x03"
"""Stand before and after each found word of an excerpt."""
EXCERPT = 120
"""Characters of an excerpt, about."""
EXCERPT_INPUT = 100_000
"""Characters of a text that are searched for an excerpt."""
MOST_QUERY = 1_000
"""Characters of a query that count: a pasted page is not found by more of it."""
LEAD = 30
"""Characters of an excerpt before the first found word, about."""

IN_TITLES = (
    f"SELECT {SUMMARY} FROM chat WHERE deleted IS NULL AND id IN"
    " (SELECT rowid FROM chat_words WHERE chat_words MATCH ?) ORDER BY updated DESC, id DESC LIMIT ?"
)
# CROSS JOIN fixes the order: first the index, then the message of each match.
IN_MESSAGES = (
    "SELECT message.chat, message.id FROM message_words"
    " CROSS JOIN message INDEXED BY message_chat ON message.id = message_words.rowid"
    " WHERE message_words MATCH ? ORDER BY message_words.rowid DESC"
)

_NOT_ASCII = re.compile(r"[^\x00-\x7f]")
_LOWER = str.maketrans(ascii_uppercase, ascii_lowercase)


def search(connection: sqlite3.Connection, words: str, limit: int) -> tuple[ChatSearchResult, ...]:
    """Chats with all of these words in their title, then chats with all of them in one message."""
    query = fts_query(words)
    if not query:
        return ()
    titled = [
        ChatSearchResult(summary_of(row), excerpt(row["title"], words))
        for row in connection.execute(IN_TITLES, (query, limit)).fetchall()
    ]
    matches = _in_messages(connection, query, {result.summary.id for result in titled})
    found = [_result(connection, *match, words) for match in islice(matches, limit - len(titled))]
    return (*titled, *sorted(found, key=lambda result: result.summary.updated, reverse=True))


def _in_messages(connection: sqlite3.Connection, query: str, seen: set[int]) -> Iterator[tuple[int, int]]:
    """Each chat that matches, with its newest matching message, except the chats seen already."""
    deleted = {row["id"] for row in connection.execute("SELECT id FROM chat WHERE deleted IS NOT NULL")}
    done = seen | deleted
    cursor = connection.cursor()
    cursor.row_factory = None  # thousands of rows, of which two numbers are read
    for chat, message in cursor.execute(IN_MESSAGES, (query,)):
        if chat not in done:
            done.add(chat)
            yield chat, message


def _result(connection: sqlite3.Connection, chat: int, message: int, words: str) -> ChatSearchResult:
    row = connection.execute(f"SELECT {SUMMARY} FROM chat WHERE id = ?", (chat,)).fetchone()
    text = connection.execute("SELECT text FROM message WHERE id = ?", (message,)).fetchone()
    return ChatSearchResult(summary_of(row), excerpt(text["text"], words))


def fts_query(words: str) -> str:
    """The FTS5 query for all of these words; "" when there are none.

    The last word matches as a prefix, unless a sign ends it: c finds "cook", c++ does not."""
    phrases = ['"' + spaced(word).replace('"', '""').strip() + '"' for word in _words(words)]
    return " ".join(phrases) + ("*" if phrases and words[:MOST_QUERY][-1].isalnum() else "")


def excerpt(text: str, words: str) -> str:
    """The part of a text where the words are, on one line, each between BEFORE and AFTER."""
    bare = text[:EXCERPT_INPUT].replace(BEFORE, "").replace(AFTER, "")
    flat = " ".join(normalized("NFC", bare).split())
    found = [match.span() for match in _finder(words).finditer(folded(flat))]
    start = _start(flat, found[0][0]) if found else 0
    end = min(start + EXCERPT, len(flat))
    parts = ["…" if start else "", *_marked(flat, start, end, found), "…" if end < len(flat) else ""]
    return "".join(parts)


def folded(text: str) -> str:
    """A text without upper case and accents, character for character: "Ärger" -> "arger"."""
    return _NOT_ASCII.sub(lambda found: _fold(found[0]), text).translate(_LOWER)


def _words(words: str) -> list[str]:
    """The words that the index can have: "C++ -- and" -> ["C++", "and"]."""
    given = words[:MOST_QUERY].replace("\0", " ").split()
    return [word for word in given if any(map(str.isalnum, word))]


def _finder(words: str) -> re.Pattern[str]:
    """Matches the words as prefixes; the characters of an unspaced script anywhere."""
    pieces = [re.findall(r"\w+", folded(normalized("NFC", word))) for word in _words(words)]
    found = [piece for word in pieces for piece in word]
    starts = [re.escape(one) if UNSPACED.match(one) else rf"\b{re.escape(one)}" for one in found]
    return re.compile("|".join(sorted(starts, key=len, reverse=True)) or r"(?!)")


def _fold(character: str) -> str:
    parts = unicodedata.normalize("NFD", character)
    kept = parts[0] if all(map(unicodedata.combining, parts[1:])) else character
    return low if len(low := kept.lower()) == 1 else kept


def _start(text: str, found: int) -> int:
    """Where an excerpt begins, so that the found word has some words before it."""
    if found <= LEAD:
        return 0
    space = text.find(" ", found - LEAD, found)
    return space + 1 if space >= 0 else found - LEAD // 2


def _marked(text: str, start: int, end: int, found: list[tuple[int, int]]) -> list[str]:
    parts, at = [], start
    for first, last in found:
        if first < at or last > end:
            continue
        parts += [text[at:first], BEFORE, text[first:last], AFTER]
        at = last
    return [*parts, text[at:end]]
