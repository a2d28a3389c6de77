"""Passages search_bm25 by BM25: the words they share with a question, rare words first.

A score alone does not say how well a passage answers: it grows with the question. So each passage is also told its
`share`, from 0 to 1: how much of what the question says is in it, by how rare each word is. Words that no passage
has count, too, so that a question about something else entirely has a small share everywhere:

    asked   notice period of the lease     weights   notice 6.4   period 5.5   lease 8.3 (nowhere)
    passage "… a short notice …"           share     6.4 / 20.2 = 0.32
"""

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import log

from app.documents.search.terms import any_of, folded, terms

FEW = 1_000
"""Passages below which rarity cannot be told: of three passages, each word is in a third."""
COMMON = 0.2
"""Nobody counts how many passages have a word that is in a larger share than this of many."""
LEAST = 0.1
"""What a word is worth that is everywhere."""
MOST_WEIGHED = 3_000
"""Passages that are weighed for a question, about. Its rarest words are asked first, and a word that is in too many
passages not at all: each of them would have to be looked at, for next to no difference."""
MOST_LOOKED_AT = 6_000
"""Of a question that has common words alone, so many passages are weighed: those that came last."""
COUNTED = "SELECT count(*) FROM (SELECT 1 FROM passage_words WHERE passage_words MATCH ? LIMIT ?)"
RANKED = """
    SELECT id, score FROM (
        SELECT passage.id, -passage_words.rank AS score FROM passage_words
        CROSS JOIN passage ON passage.id = passage_words.rowid
        CROSS JOIN document ON document.id = passage.document
        WHERE passage_words MATCH ? AND document.state = 'ready'
        AND document.collection IN (SELECT value FROM json_each(?))
        ORDER BY passage_words.rowid DESC LIMIT ?
    ) ORDER BY score DESC, id LIMIT ?
"""
WORDS = "SELECT rowid, text FROM passage_words WHERE rowid IN (SELECT value FROM json_each(?))"


@dataclass(frozen=True, slots=True)
class Bm25Hit:
    """A passage, its BM25 score, and how much of the question is in it."""

    passage: int
    score: float
    share: float


@dataclass(frozen=True, slots=True)
class Term:
    """A phrase of a question, how many passages have it, and what finding it is worth."""

    phrase: str
    passages: int
    weight: float


def search_bm25(
    connection: sqlite3.Connection, collections: Sequence[int], question: str, limit: int
) -> tuple[Bm25Hit, ...]:
    """The passages of these collections that have words of the question, best first."""
    total = int(connection.execute("SELECT count(*) FROM passage").fetchone()[0])
    weighed = [_weighed(connection, phrase, total) for phrase in terms(question)]
    there = sorted((term for term in weighed if term.passages), key=lambda term: term.passages)
    if not there:
        return ()
    # The rare words may all be in other collections: then the common ones have something to say.
    found = _found(connection, collections, _rare(there), limit) or _found(
        connection, collections, there, limit
    )
    shares = _shares(connection, weighed, [row["id"] for row in found])
    return tuple(Bm25Hit(row["id"], row["score"], shares[row["id"]]) for row in found)


def _weighed(connection: sqlite3.Connection, phrase: str, total: int) -> Term:
    most = max(FEW, int(COMMON * total))
    having = int(connection.execute(COUNTED, (any_of([phrase]), most)).fetchone()[0])
    if having == most:
        return Term(phrase, having, LEAST)
    all_there = max(total, FEW)
    return Term(phrase, having, max(LEAST, log((all_there - having + 0.5) / (having + 0.5))))


def _rare(there: Sequence[Term]) -> list[Term]:
    """Of words that are somewhere, the rarest first: that one, and those that can be afforded besides."""
    costs = accumulate(term.passages for term in there)
    return [term for term, cost in zip(there, costs, strict=True) if term is there[0] or cost <= MOST_WEIGHED]


def _found(
    connection: sqlite3.Connection, collections: Sequence[int], asked: Sequence[Term], limit: int
) -> list[sqlite3.Row]:
    words, where = any_of(term.phrase for term in asked), json.dumps(list(collections))
    return connection.execute(RANKED, (words, where, MOST_LOOKED_AT, limit)).fetchall()


def _shares(connection: sqlite3.Connection, weighed: Sequence[Term], passages: list[int]) -> dict[int, float]:
    # Asking the index for each word in each passage would take ten times as long as looking at their texts.
    whole = sum(term.weight for term in weighed)
    said = [(f" {folded(term.phrase)} ", term.weight / whole) for term in weighed if term.passages]
    texts = connection.execute(WORDS, (json.dumps(passages),))
    plain = {row["rowid"]: f" {folded(row['text'])} " for row in texts}
    return {one: sum(weight for phrase, weight in said if phrase in plain[one]) for one in passages}
