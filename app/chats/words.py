"""Words to find: how a search for chats is asked, and how what was found is shown.

Messages are indexed as app/spacing.py spaces them; a word of an unspaced script is a phrase of its characters:

    asked       全文 fts              ->  "全  文" "fts"*
"""

import re
import unicodedata
from string import ascii_lowercase, ascii_uppercase

from app.spacing import UNSPACED, normalized, spaced

BEFORE, BEHIND = "\x02", "\x03"
"""What stands before and behind each found word of an excerpt."""
EXCERPT = 120
"""Characters of an excerpt, about."""
LOOKED_AT = 100_000
"""Characters of a text in which an excerpt looks for words."""
ASKED = 1_000
"""Characters of a search that are looked for: a pasted page is not found by more of it."""
LEAD = 30
"""Characters of an excerpt before the first found word, about."""

NOT_ASCII = re.compile(r"[^\x00-\x7f]")
LOWER = str.maketrans(ascii_uppercase, ascii_lowercase)


def question(words: str) -> str:
    """What to ask FTS5 for all of these words; "" when there are none.

    The last one counts by its beginning, unless a sign ends it: c finds "cook", c++ does not."""
    phrases = ['"' + spaced(word).replace('"', '""').strip() + '"' for word in _words(words)]
    return " ".join(phrases) + ("*" if phrases and words[:ASKED][-1].isalnum() else "")


def excerpt(text: str, words: str) -> str:
    """The part of a text where the words are, on one line, each between BEFORE and BEHIND."""
    bare = text[:LOOKED_AT].replace(BEFORE, "").replace(BEHIND, "")
    flat = " ".join(normalized("NFC", bare).split())
    found = [match.span() for match in _finder(words).finditer(folded(flat))]
    start = _start(flat, found[0][0]) if found else 0
    end = min(start + EXCERPT, len(flat))
    parts = ["…" if start else "", *_marked(flat, start, end, found), "…" if end < len(flat) else ""]
    return "".join(parts)


def folded(text: str) -> str:
    """A text without upper case and accents, character for character: "Ärger" -> "arger"."""
    return NOT_ASCII.sub(lambda found: _fold(found[0]), text).translate(LOWER)


def _words(words: str) -> list[str]:
    """The words that an index can know: "C++ -- and" -> ["C++", "and"]."""
    asked = words[:ASKED].replace("\0", " ").split()
    return [word for word in asked if any(map(str.isalnum, word))]


def _finder(words: str) -> re.Pattern[str]:
    """Finds the words where they begin; the characters of an unspaced script anywhere."""
    pieces = [re.findall(r"\w+", folded(normalized("NFC", word))) for word in _words(words)]
    found = [piece for word in pieces for piece in word]
    starts = [re.escape(one) if UNSPACED.match(one) else rf"\b{re.escape(one)}" for one in found]
    return re.compile("|".join(sorted(starts, key=len, reverse=True)) or r"(?!)")


def _fold(character: str) -> str:
    parts = unicodedata.normalize("NFD", character)
    kept = parts[0] if all(map(unicodedata.combining, parts[1:])) else character
    return low if len(low := kept.lower()) == 1 else kept


def _start(text: str, found: int) -> int:
    """Where to begin so that a found word has some words before it."""
    if found <= LEAD:
        return 0
    space = text.find(" ", found - LEAD, found)
    return space + 1 if space >= 0 else found - LEAD // 2


def _marked(text: str, start: int, end: int, found: list[tuple[int, int]]) -> list[str]:
    parts, at = [], start
    for first, last in found:
        if first < at or last > end:
            continue
        parts += [text[at:first], BEFORE, text[first:last], BEHIND]
        at = last
    return [*parts, text[at:end]]
