"""Words to find: what of a passage is indexed, and what of a question is asked.

The index folds accents and case (unicode61). What it cannot know is added:

    indexed     parseHTTPDate of app.dates  ->  "parseHTTPDate parse HTTP Date of app.dates"
                会议记录                      ->  "会 议 记 录"

A question is any of its words, so that a passage with the rare ones wins. Words that every question has ("what",
"is", "the") are left out, unless there are no others. A name of code counts whole, as a phrase, and by its parts:

    asked       What is os.path?            ->  ["os path"], ["os"], ["path"]
                会议记录                      ->  ["会 议"], ["议 记"], ["记 录"]
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator
from itertools import pairwise

from app.text_normalisation import UNSPACED, normalized, spaced, storable

CAMEL = re.compile(r"(?<=[a-z\d])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
"""Where a part of a name ends: parse|HTTP|Date."""
NAME = re.compile(r"(?<![^\W_])(?:[^\W_]*[a-z\d][A-Z][^\W_]*|[^\W_]*[A-Z][A-Z][a-z][^\W_]*)")
"""A name of several parts that one word of the index would swallow."""
WORD = re.compile(r"\w+(?:[.\-/:]+\w+)*")
"""A word of a question, with the signs that tie a name of code, a number or a date together."""
PIECE = re.compile(r"[^\W_]+")
RUN = re.compile(f"(?:{UNSPACED.pattern})+")
CONTRACTED = re.compile(r"(?<=\w)['\u2019](?:s|t|re|ve|ll|d|m)\b", re.IGNORECASE)
"""isn't, what's, they're: the rest is a word that every question has."""
SIGNS = {code: " " for code in range(128) if not chr(code).isalnum()}
MOST_TERMS = 64
"""Terms of a question that are asked; a pasted page has its first ones asked."""

EVERYWHERE = """
    a an and are as at be been by can could do does did for from has have how i if in into is it its me my of on or
    our should that the their them then there these they this to was we were what when where which who whom whose
    why will with would you your
"""
STOP_WORDS = frozenset(EVERYWHERE.split())


def indexed(text: str) -> str:
    """A text as it is indexed."""
    return spaced(NAME.sub(lambda found: " ".join([found[0], *CAMEL.split(found[0])]), text))


def terms(question: str) -> tuple[str, ...]:
    """The words of a question as phrases for the index, each once: those that say what it is about."""
    found = tuple(dict.fromkeys(_phrases(question)))
    telling = tuple(term for term in found if term not in STOP_WORDS)
    return (telling or found)[:MOST_TERMS]


def telling_words(question: str) -> tuple[str, ...]:
    """The words of a question as they are written, each once, without those that every question has."""
    words = dict.fromkeys(_words(question))
    return tuple(word for word in words if word.lower() not in STOP_WORDS)


def any_of(terms: Iterable[str]) -> str:
    """What FTS5 is asked for passages with any of these."""
    return " OR ".join(f'"{term}"' for term in terms)


def folded(text: str) -> str:
    """The words of an indexed text as the index knows them, with a space between each: "Éa_b!" -> "ea b"."""
    if text.isascii():
        return " ".join(text.lower().translate(SIGNS).split())  # ten times as fast
    letters = "".join(one for one in normalized("NFKD", text) if not unicodedata.combining(one))
    return " ".join(PIECE.findall(letters.lower()))


def _phrases(question: str) -> Iterator[str]:
    for word in _words(question):
        if RUN.fullmatch(word):
            yield from _pairs(word)
            continue
        parts = PIECE.findall(word)
        yield " ".join(parts).lower()
        yield from (piece.lower() for part in parts for piece in (part, *_pieces(part)))


def _words(question: str) -> Iterator[str]:
    text = CONTRACTED.sub("", normalized("NFKC", storable(question)))
    yield from (word for word in WORD.findall(RUN.sub(" ", text)) if PIECE.search(word))
    yield from RUN.findall(text)


def _pieces(name: str) -> list[str]:
    return CAMEL.split(name) if NAME.fullmatch(name) else [name]


def _pairs(run: str) -> list[str]:
    """Neighbours in an unspaced script, where a single character says little."""
    return [f"{first} {second}" for first, second in pairwise(run)] or [run]
