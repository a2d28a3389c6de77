"""The words of a passage that are indexed, and the words of a question that are searched.

FTS5's unicode61 tokenizer folds accents and case. The following is added here:

    indexed     parseHTTPDate of app.dates  ->  "parseHTTPDate parse HTTP Date of app.dates"
                会议记录                      ->  "会 议 记 录"

A question searches for any of its words, and BM25 prefers the rare words. Stop words ("what", "is", "the") are left
out, unless there are no other words. An identifier is searched whole, as a phrase, and by its parts:

    searched    What is os.path?            ->  ["os path"], ["os"], ["path"]
                会议记录                      ->  ["会 议"], ["议 记"], ["记 录"]
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator
from itertools import pairwise

from app.values.text_normalisation import UNSPACED, normalized, spaced, storable

CAMEL = re.compile(r"(?<=[a-z\d])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
"""The positions between the parts of an identifier: parse|HTTP|Date."""
NAME = re.compile(r"(?<![^\W_])(?:[^\W_]*[a-z\d][A-Z][^\W_]*|[^\W_]*[A-Z][A-Z][a-z][^\W_]*)")
"""An identifier of several parts, which the tokenizer would index as one word."""
WORD = re.compile(r"\w+(?:[.\-/:]+\w+)*")
"""A word of a question, including signs within an identifier, a number or a date."""
PIECE = re.compile(r"[^\W_]+")
RUN = re.compile(f"(?:{UNSPACED.pattern})+")
CONTRACTED = re.compile(r"(?<=\w)['\u2019](?:s|t|re|ve|ll|d|m)\b", re.IGNORECASE)
"""Contracted endings, as in isn't, what's and they're; without its ending the word is a stop word."""
SIGNS = {code: " " for code in range(128) if not chr(code).isalnum()}
MAX_TERMS = 64
"""Maximum number of terms of a question that are searched; of a longer text, only the first terms are."""

STOP_WORD_LIST = """
    a an and are as at be been by can could do does did for from has have how i if in into is it its me my of on or
    our should that the their them then there these they this to was we were what when where which who whom whose
    why will with would you your
"""
STOP_WORDS = frozenset(STOP_WORD_LIST.split())


def indexed(text: str) -> str:
    """Returns the text to put into the index, with the parts of identifiers added and unspaced scripts spaced."""
    return spaced(NAME.sub(lambda found: " ".join([found[0], *CAMEL.split(found[0])]), text))


def terms(question: str) -> tuple[str, ...]:
    """Returns the words of a question as FTS5 phrases, each once, without stop words."""
    found = tuple(dict.fromkeys(_phrases(question)))
    without = tuple(term for term in found if term not in STOP_WORDS)
    return (without or found)[:MAX_TERMS]


def content_words(question: str) -> tuple[str, ...]:
    """Returns the words of a question as they are written, each once, without stop words."""
    words = dict.fromkeys(_words(question))
    return tuple(word for word in words if word.lower() not in STOP_WORDS)


def any_of(terms: Iterable[str]) -> str:
    """Makes an FTS5 query for passages with any of these terms."""
    return " OR ".join(f'"{term}"' for term in terms)


def folded(text: str) -> str:
    """Returns the words of an indexed text, folded like the tokenizer does, between spaces: "Éa_b!" -> "ea b"."""
    if text.isascii():
        return " ".join(text.lower().translate(SIGNS).split())  # ten times as fast as the general case
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
    """Makes pairs of neighbouring characters, because in a script without spaces a single one means little."""
    return [f"{first} {second}" for first, second in pairwise(run)] or [run]
