"""Ranks passages by BM25: the words they share with a question, rare words first.

A score alone does not show how well a passage answers, because it grows with the length of the question. So each
passage also has a `share`, from 0 to 1: the part of the question's words that it contains, each word weighted by
its rarity. Words that no passage has count, too, so that a question about something else has a small share
everywhere. Words that only ask to look in the documents ("What do the sources say about …") do not count:

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

MIN_TOTAL = 1_000
"""Minimum number of passages that is assumed, because rarity means nothing among few: of three passages, each word
is in at least a third."""
COMMON = 0.2
"""A word that is in a larger share of the passages is common; its passages are not counted further."""
MIN_WEIGHT = 0.1
"""The weight of a common word."""
MAX_SCORED = 3_000
"""Approximate maximum number of passages that are scored for a question. Its rarest words are searched first. A
word in too many passages is not searched, because scoring them would take long and change next to nothing."""
MAX_SCORED_COMMON = 6_000
"""Maximum number of passages, taken from the newest, that are scored for a question that has only common words."""
ASKING_LIST = """
    about cite cited document documents mention mentioned mentions passage passages quote said say says sentence
    sentences source sources dokument dokumente dokumenten erwähnt quelle quellen sagen sagt satz steht über zitiere
"""
ASKING = frozenset(ASKING_LIST.split())
"""Words by which a question only asks to look in the documents; they do not describe what it is about."""
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
    """A passage, its BM25 score, and the share of the question's words that it contains."""

    passage: int
    score: float
    share: float


@dataclass(frozen=True, slots=True)
class Term:
    """A phrase of a question, the number of passages that have it, and its weight."""

    phrase: str
    passages: int
    weight: float


def search_bm25(
    connection: sqlite3.Connection, collections: Sequence[int], question: str, limit: int
) -> tuple[Bm25Hit, ...]:
    """Finds the passages of these collections that have words of the question, best first."""
    total = int(connection.execute("SELECT count(*) FROM passage").fetchone()[0])
    weighed = [_weighed(connection, phrase, total) for phrase in terms(question)]
    present = sorted((term for term in weighed if term.passages), key=lambda term: term.passages)
    if not present:
        return ()
    # If all rare words are in other collections, the common words are searched.
    found = _found(connection, collections, _rare(present), limit) or _found(
        connection, collections, present, limit
    )
    informative = [term for term in weighed if term.phrase not in ASKING] or weighed
    shares = _shares(connection, informative, [row["id"] for row in found])
    return tuple(Bm25Hit(row["id"], row["score"], shares[row["id"]]) for row in found)


def _weighed(connection: sqlite3.Connection, phrase: str, total: int) -> Term:
    most = max(MIN_TOTAL, int(COMMON * total))
    having = int(connection.execute(COUNTED, (any_of([phrase]), most)).fetchone()[0])
    if having == most:
        return Term(phrase, having, MIN_WEIGHT)
    all_there = max(total, MIN_TOTAL)
    return Term(phrase, having, max(MIN_WEIGHT, log((all_there - having + 0.5) / (having + 0.5))))


def _rare(present: Sequence[Term]) -> list[Term]:
    """Returns the rarest word, and the next rare words whose passages can be scored as well; rarest first."""
    costs = accumulate(term.passages for term in present)
    return [
        term for term, cost in zip(present, costs, strict=True) if term is present[0] or cost <= MAX_SCORED
    ]


def _found(
    connection: sqlite3.Connection, collections: Sequence[int], asked: Sequence[Term], limit: int
) -> list[sqlite3.Row]:
    words, where = any_of(term.phrase for term in asked), json.dumps(list(collections))
    return connection.execute(RANKED, (words, where, MAX_SCORED_COMMON, limit)).fetchall()


def _shares(connection: sqlite3.Connection, weighed: Sequence[Term], passages: list[int]) -> dict[int, float]:
    # Searching the index for each word in each passage would take ten times as long as reading their texts.
    whole = sum(term.weight for term in weighed)
    phrases = [(f" {folded(term.phrase)} ", term.weight / whole) for term in weighed if term.passages]
    texts = connection.execute(WORDS, (json.dumps(passages),))
    plain = {row["rowid"]: f" {folded(row['text'])} " for row in texts}
    return {one: sum(weight for phrase, weight in phrases if phrase in plain[one]) for one in passages}
