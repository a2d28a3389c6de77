"""Full-text search of chats: the FTS5 query, the chats found by title or message, and their excerpts.

Every match is read from the index; texts are read only for excerpts. Searching for a word that is in each of
200,000 messages takes about 0.15 seconds; searching for a rare word takes a millisecond.

Scripts without spaces, such as Chinese, are indexed with spaces around each character and searched as phrases:

    query       全文 fts              ->  "全  文" "fts"*
"""

import re
import sqlite3
import unicodedata
from string import ascii_lowercase, ascii_uppercase

from app.chats.chat_table import SUMMARY, summary_of
from app.values.chat import ChatSearchResult
from app.values.text_normalisation import UNSPACED, normalized, spaced

BEFORE, AFTER = "\x02", "\x03"
"""Control characters that mark the beginning and the end of each found word in an excerpt."""
EXCERPT = 120
"""Approximate number of characters of an excerpt."""
EXCERPT_INPUT = 100_000
"""Maximum number of characters of a text that are searched for an excerpt."""
MOST_QUERY = 1_000
"""Maximum number of characters of a query that are used, because long pasted texts are not useful queries."""
LEAD = 30
"""Approximate number of characters before the first found word in an excerpt."""

# CROSS JOIN fixes the order: first the index, then the message of each match.
FOUND = f"""
    WITH hit (chat, message) AS (
        SELECT message.chat, max(message.id) FROM message_words
        CROSS JOIN message INDEXED BY message_chat ON message.id = message_words.rowid
        WHERE message_words MATCH :query GROUP BY message.chat
        UNION ALL SELECT rowid, 0 FROM chat_words WHERE chat_words MATCH :query
    )
    SELECT {SUMMARY}, max(message) AS message FROM hit JOIN chat ON chat.id = hit.chat
    WHERE deleted IS NULL GROUP BY chat.id ORDER BY updated DESC, chat.id DESC
"""

_NOT_ASCII = re.compile(r"[^\x00-\x7f]")
_LOWER = str.maketrans(ascii_uppercase, ascii_lowercase)


def search(connection: sqlite3.Connection, words: str, excerpts: int = 30) -> tuple[ChatSearchResult, ...]:
    """Finds all chats with all of these words in their title or in one message, the last used chats first.

    The first `excerpts` results quote the newest message with all words, or else the title."""
    query = fts_query(words)
    if not query:
        return ()
    results = list[ChatSearchResult]()
    for number, row in enumerate(connection.execute(FOUND, {"query": query}).fetchall()):
        shown = ""
        if number < excerpts:
            select = "SELECT text FROM message WHERE id = ?"
            message = connection.execute(select, (row["message"],)).fetchone()
            shown = excerpt(str(message["text"] if message else row["title"]), words)
        results.append(ChatSearchResult(summary_of(row), shown, row["message"]))
    return tuple(results)


def fts_query(words: str) -> str:
    """Makes the FTS5 query for all of these words; "" if there are none.

    If the query ends with a letter or a digit, its last word matches as a prefix: c finds "cook", c++ does not."""
    phrases = ['"' + spaced(word).replace('"', '""').strip() + '"' for word in _words(words)]
    return " ".join(phrases) + ("*" if phrases and words[:MOST_QUERY][-1].isalnum() else "")


def excerpt(text: str, words: str) -> str:
    """Returns the part of a text around the words as one line, with each word between BEFORE and AFTER."""
    bare = text[:EXCERPT_INPUT].replace(BEFORE, "").replace(AFTER, "")
    flat = " ".join(normalized("NFC", bare).split())
    found = [match.span() for match in _finder(words).finditer(folded(flat))]
    start = _start(flat, found[0][0]) if found else 0
    end = min(start + EXCERPT, len(flat))
    parts = ["…" if start else "", *_marked(flat, start, end, found), "…" if end < len(flat) else ""]
    return "".join(parts)


def folded(text: str) -> str:
    """Replaces upper case and accents, character for character: "Ärger" -> "arger"."""
    return _NOT_ASCII.sub(lambda found: _fold(found[0]), text).translate(_LOWER)


def _words(words: str) -> list[str]:
    """Returns the words that the index can contain: "C++ -- and" -> ["C++", "and"]."""
    given = words[:MOST_QUERY].replace("\0", " ").split()
    return [word for word in given if any(map(str.isalnum, word))]


def _finder(words: str) -> re.Pattern[str]:
    """Makes a pattern for the words as prefixes; characters of scripts without spaces match anywhere."""
    pieces = [re.findall(r"\w+", folded(normalized("NFC", word))) for word in _words(words)]
    found = [piece for word in pieces for piece in word]
    starts = [re.escape(one) if UNSPACED.match(one) else rf"\b{re.escape(one)}" for one in found]
    return re.compile("|".join(sorted(starts, key=len, reverse=True)) or r"(?!)")


def _fold(character: str) -> str:
    parts = unicodedata.normalize("NFD", character)
    kept = parts[0] if all(map(unicodedata.combining, parts[1:])) else character
    return low if len(low := kept.lower()) == 1 else kept


def _start(text: str, found: int) -> int:
    """Returns the position at which an excerpt begins, so that some words precede the found word."""
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
