"""Passages ranked by BM25: the words they share with a question, rare words first.

A score alone does not say how well a passage answers: it grows with the question. So each passage is also told its
`share`, from 0 to 1: how much of what the question says is in it, by how rare each word is. Words that no passage
has count, too, so that a question about something else entirely has a small share everywhere:

    asked   notice period of the lease     weights   notice 6.4   period 5.5   lease 8.3 (nowhere)
    passage "… a short notice …"           share     6.4 / 20.2 = 0.32
"""

import json
import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import log

from app.documents.search.words import any_of, folded, terms

FEW = 1_000
"""Passages below which rarity cannot be told: of three passages, each word is in a third."""
MOST_WEIGHED = 5_000
"""Passages that are weighed for a question, about. Its rarest words are asked first, and a word that is in too many
passages not at all: each of them would have to be looked at, for next to no difference."""
RANKED = """
    SELECT passage.id, -passage_words.rank AS score FROM passage_words
    CROSS JOIN passage ON passage.id = passage_words.rowid
    CROSS JOIN document ON document.id = passage.document
    WHERE passage_words MATCH ? AND document.state = 'ready'
    AND document.collection IN (SELECT value FROM json_each(?))
    ORDER BY score DESC, passage.id LIMIT ?
"""
WORDS = "SELECT rowid, text FROM passage_words WHERE rowid IN (SELECT value FROM json_each(?))"


@dataclass(frozen=True, slots=True)
class Ranked:
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


def ranked(
    connection: sqlite3.Connection, collections: Sequence[int], question: str, limit: int
) -> tuple[Ranked, ...]:
    """The passages of these collections that have words of the question, best first."""
    total = int(connection.execute("SELECT count(*) FROM passage").fetchone()[0])
    weighed = [_weighed(connection, phrase, total) for phrase in terms(question)]
    asked = _rare(weighed)
    if not asked:
        return ()
    found = connection.execute(RANKED, (any_of(asked), json.dumps(list(collections)), limit)).fetchall()
    shares = _shares(connection, weighed, [row["id"] for row in found])
    return tuple(Ranked(row["id"], row["score"], shares[row["id"]]) for row in found)


def _weighed(connection: sqlite3.Connection, phrase: str, total: int) -> Term:
    row = connection.execute(
        "SELECT count(*) FROM passage_words WHERE passage_words MATCH ?", (any_of([phrase]),)
    ).fetchone()
    having, all_there = int(row[0]), max(total, FEW)
    return Term(phrase, having, max(0.1, log((all_there - having + 0.5) / (having + 0.5))))


def _rare(weighed: Iterable[Term]) -> list[str]:
    """What is asked of the index: the rarest word, and those that can be afforded besides."""
    there = sorted((term for term in weighed if term.passages), key=lambda term: term.passages)
    costs = accumulate(term.passages for term in there)
    return [
        term.phrase
        for term, cost in zip(there, costs, strict=True)
        if term is there[0] or cost <= MOST_WEIGHED
    ]


def _shares(connection: sqlite3.Connection, weighed: Sequence[Term], passages: list[int]) -> dict[int, float]:
    # Asking the index for each word in each passage would take ten times as long as looking at their texts.
    whole = sum(term.weight for term in weighed)
    said = [(f" {folded(term.phrase)} ", term.weight / whole) for term in weighed if term.passages]
    texts = connection.execute(WORDS, (json.dumps(passages),))
    plain = {row["rowid"]: f" {folded(row['text'])} " for row in texts}
    return {one: sum(weight for phrase, weight in said if phrase in plain[one]) for one in passages}
