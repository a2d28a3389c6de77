"""Passages ranked by BM25: the words they share with a question, rare words first.

A score alone says nothing about how well a passage answers: it grows with the question. What every word of the
question could earn, were it often in a short passage, does: `share` is a passage's part of that, from 0 to 1, and
words that no passage has count there, too. A question about something else entirely has a small share everywhere.
"""

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from math import log

from app.documents.search.words import any_of, terms

K1 = 1.2
"""FTS5's: a word that is there again and again earns up to K1 + 1 times its rarity."""
TOO_COMMON = 0.1
"""A word in a larger share of passages is not asked for where the question has rarer ones: it would be weighed in
each of them, and change next to nothing."""
RANKED = """
    SELECT passage.id, -passage_words.rank AS score FROM passage_words
    JOIN passage ON passage.id = passage_words.rowid
    JOIN document ON document.id = passage.document
    WHERE passage_words MATCH ? AND document.state = 'ready'
    AND document.collection IN (SELECT value FROM json_each(?))
    ORDER BY score DESC, passage.id LIMIT ?
"""


@dataclass(frozen=True, slots=True)
class Ranked:
    """A passage with its score, and its share of the score that it could have at most."""

    passage: int
    score: float
    share: float


def ranked(
    connection: sqlite3.Connection, collections: Sequence[int], question: str, limit: int
) -> tuple[Ranked, ...]:
    """The passages of these collections with words of the question, best first."""
    rarity = _rarity(connection, terms(question))
    if not rarity:
        return ()
    asked = _telling(rarity)
    best = (K1 + 1) * sum(rarity.values())
    rows = connection.execute(RANKED, (any_of(asked), json.dumps(list(collections)), limit))
    return tuple(Ranked(row["id"], row["score"], row["score"] / best) for row in rows)


def _rarity(connection, terms):
    ...
