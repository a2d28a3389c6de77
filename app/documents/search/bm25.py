"""Ranks passages by BM25, a score of the words that a passage shares with a question, rare words above all.

A score alone does not show how well a passage answers, because it grows with the length of the question. So each
passage also has a `share`, from 0 to 1: the part of the question's words that it contains, each word weighted by
its rarity. Words that no passage has count, too, so that a question about something else has a small share.

    asked   notice period of the lease     weights   notice 6.4   period 5.5   lease 8.3 (nowhere)
    passage "… a short notice …"           share     6.4 / 20.2 = 0.32"""

import json
import re
import sqlite3
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain
from math import log

from app.documents.search.terms import MAX_TERMS, Term, any_of, asked

MIN_TOTAL = 1_000
"""Minimum number of passages that is assumed, because a word's rarity means nothing among three passages."""
COMMON = 0.2
"""A word is common if this share of all passages, and at least MIN_TOTAL of them, have it."""
MIN_WEIGHT = 0.1
"""The minimum weight of a word, which common words have."""
CLAUSE_WEIGHT = 30.0
"""The minimum weight of a sentence or clause, unless the whole question weighs less. Four or five rare words
weigh 30."""
MAX_WEIGHT, MAX_PAIRS_WEIGHT = 45.0, 120.0
"""The maximum weight of a question, sentence or clause, and of one with pairs of characters. A passage rarely has a
large share of a long sentence, even if it has several of its rare words."""
SENTENCE_END = re.compile(r"(?<=[.!?\u2026])\s+|(?<=[\u061f\u0964\u3002\uff01\uff1f])\s*|\n+")
CLAUSE_END = re.compile(SENTENCE_END.pattern + r"|(?<=[;,:])\s+|(?<=[\u060c\u061b\uff0c\uff1b])\s*")
PAIR_WORTH = 1.5
"""Factor by which a pair of characters counts more in a share. In texts without spaces, a passage has a smaller
share of a question's pairs than of its words, because many pairs belong to two words."""
MAX_CLAUSES = 64
"""Number of sentences, and of clauses, after which the rest of a question counts as one sentence or clause."""
MAX_SCORED = 3_000
"""Maximum number of passages that are scored for most questions, because scoring more takes long and changes
little. The rarest words are searched, as long as all their passages together do not exceed this number."""
MAX_SCORED_COMMON = 6_000
"""Maximum number of passages that are scored for any question: the newest, if more have the searched words."""
SATURATION, LENGTH_PART = 1.2, 0.75
"""BM25's k1 and b, as in FTS5."""
LANGUAGES = """
    SELECT DISTINCT language FROM document
    WHERE state = 'ready' AND collection IN (SELECT value FROM json_each(?))
"""
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
class WeighedTerm:
    """A word of a question, the number of passages that have it (counted only until the word is common), and its
    weight."""

    term: Term
    passages: int
    weight: float


def search_bm25(
    connection: sqlite3.Connection, collections: Sequence[int], question: str, limit: int
) -> tuple[Bm25Hit, ...]:
    """Finds at most `limit` passages of these collections that have words of the question, best first.

    FTS5 finds them, and weighs each phrase by its own rarity. A word has a stem for each language. If only a few
    documents are in a language, stems in this language are rare even if the word is common. So in collections with
    several languages the found passages are scored again, with one weight for all stems of a word. A word that the
    question has twice counts twice."""
    languages = [row[0] for row in connection.execute(LANGUAGES, (json.dumps(list(collections)),))] or [""]
    sentences = [asked(one, languages) for one in SENTENCE_END.split(question, MAX_CLAUSES)]
    clauses = [asked(one, languages) for one in CLAUSE_END.split(question, MAX_CLAUSES)]
    whole = list(chain.from_iterable(sentences))[:MAX_TERMS]
    total = int(connection.execute("SELECT count(*) FROM passage").fetchone()[0])
    weighed = {term: _weighed(connection, term, total) for term in dict.fromkeys(whole)}
    present = sorted(
        (weighed[term] for term in whole if weighed[term].passages), key=lambda one: one.passages
    )
    if not present:
        return ()
    # If all rare words are in other collections, all words are searched.
    found = _found(connection, collections, _rare(present), limit) or _found(
        connection, collections, present, limit
    )
    # Searching the index for each word in each passage would take ten times as long as reading the passages.
    texts = {
        row["rowid"]: f" {row['text']} "
        for row in connection.execute(WORDS, (json.dumps([row["id"] for row in found]),))
    }
    is_scored_again = len(languages) > 1 and bool(found)
    # For shares it is enough whether a word occurs.
    number_of = str.count if is_scored_again else str.__contains__
    counts = {
        passage: {
            term: max((number_of(text, f" {one} ") for one in term.phrases), default=0) for term in weighed
        }
        for passage, text in texts.items()
    }
    scores = {row["id"]: row["score"] for row in found}
    if is_scored_again:
        scores = _scores(texts, counts, [weighed[term] for term in whole], total)
    shares = _shares(weighed, [*sentences, *clauses], counts)
    hits = (Bm25Hit(passage, scores[passage], shares[passage]) for passage in counts)
    return tuple(sorted(hits, key=lambda hit: (-hit.score, hit.passage)))


def _weighed(connection: sqlite3.Connection, term: Term, total: int) -> WeighedTerm:
    most = max(MIN_TOTAL, int(COMMON * total))
    having = int(connection.execute(COUNTED, (any_of(term.phrases), most)).fetchone()[0])
    if having == most:
        return WeighedTerm(term, having, MIN_WEIGHT)
    all_there = max(total, MIN_TOTAL)
    return WeighedTerm(term, having, max(MIN_WEIGHT, log((all_there - having + 0.5) / (having + 0.5))))


def _rare(present: Sequence[WeighedTerm]) -> list[WeighedTerm]:
    """Returns the rarest words, at least one, whose passages together are at most MAX_SCORED; rarest first."""
    costs = accumulate(one.passages for one in present)
    return [one for one, cost in zip(present, costs, strict=True) if one is present[0] or cost <= MAX_SCORED]


def _found(
    connection: sqlite3.Connection, collections: Sequence[int], present: Sequence[WeighedTerm], limit: int
) -> list[sqlite3.Row]:
    words = any_of(phrase for one in present for phrase in one.term.phrases)
    where = json.dumps(list(collections))
    return connection.execute(RANKED, (words, where, MAX_SCORED_COMMON, limit)).fetchall()


def _scores(
    texts: Mapping[int, str],
    counts: Mapping[int, Mapping[Term, int]],
    asked_terms: Sequence[WeighedTerm],
    total: int,
) -> dict[int, float]:
    """Returns the BM25 score of each passage, with lengths relative to the mean of these passages."""
    lengths = {passage: text.count(" ") for passage, text in texts.items()}
    mean = max(1.0, sum(lengths.values()) / len(lengths))
    times = Counter(asked_terms)
    return {
        passage: sum(
            number
            * log(1 + (total - one.passages + 0.5) / (one.passages + 0.5))
            * found[one.term]
            * (SATURATION + 1)
            / (found[one.term] + SATURATION * (1 - LENGTH_PART + LENGTH_PART * lengths[passage] / mean))
            for one, number in times.items()
        )
        for passage, found in counts.items()
    }


def _shares(
    weighed: Mapping[Term, WeighedTerm],
    clauses: Sequence[Iterable[Term]],
    counts: Mapping[int, Mapping[Term, int]],
) -> dict[int, float]:
    """Returns the largest share that each passage has of the question, of a sentence or of a clause, so that
    greetings and explanations do not lower it.

    A clause is weighed as at least CLAUSE_WEIGHT, or as the whole question if that weighs less, so that a single
    word of a short clause does not give a large share. Nothing is weighed as more than MAX_WEIGHT or
    MAX_PAIRS_WEIGHT."""
    weights = {term: one.weight for term, one in weighed.items() if not term.is_common}
    whole = weights or {term: one.weight for term, one in weighed.items() if one.passages}
    parts = [whole, *({term: weights[term] for term in clause if term in weights} for clause in clauses)]
    least = min(sum(whole.values()), CLAUSE_WEIGHT)
    most = MAX_PAIRS_WEIGHT if any(term.is_pair for term in whole) else MAX_WEIGHT
    totals = [min(max(sum(part.values()), least), most) for part in parts]
    found = dict[int, float]()
    for passage, number in counts.items():
        has = [term for term in whole if number[term]]
        worth = {term: PAIR_WORTH if term.is_pair else 1.0 for term in has}
        found[passage] = max(
            min(1.0, sum(part.get(term, 0.0) * worth[term] for term in has) / total)
            for part, total in zip(parts, totals, strict=True)
        )
    return found
