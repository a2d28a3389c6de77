"""Finds the passages that match a question: by words, and by meaning if there is an embedding model."""

import json
from collections.abc import Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotReady
from dataclasses import dataclass
from math import inf

import numpy as np

from app.database.database import Database
from app.documents import passage_table
from app.documents.embedding import NO_VECTORS, Cosines, Embedder, VectorIndex, Vectors
from app.documents.search.bm25 import Bm25Hit, search_bm25
from app.errors import AppError
from app.values.document import Passage, PassageHit

CANDIDATES = 50
"""Maximum number of passages that each of the two rankings contributes."""
LONGEST_QUESTION = 50_000
"""Maximum number of characters of a question that are searched."""
MAX_WAIT = 2.0
"""Seconds to wait for the question's vector. If a long reply delays the vector, only words are searched."""
OVERFETCH = 3
"""Factor by which more passages are fetched than asked for, because repeats are removed."""
READY = """
    SELECT id FROM document WHERE state = 'ready' AND collection IN (SELECT value FROM json_each(?))
"""
REPEAT_SHARE = 0.5
"""Passages of a document that overlap by more than this share of the shorter passage are repeats."""
SHARE_WORTH = 8.0
"""Number of standard deviations of the cosine that a passage with all words of the question is worth."""
MIN_SHARE_ALONE = 0.20
"""If only words are searched, at least one passage must have this share of the question's words."""
MIN_SHARE = 0.45
"""If meaning is searched, too, a passage with at least this share of the question's words is near enough."""
MIN_SIMILARITY = 0.30
"""If meaning is searched, a passage with at least this cosine to the question is near enough. If the mean cosine of
all passages is as large, as with the models called E5, a passage must stand out from the others instead."""
MIN_PASSAGES = 120
"""Minimum number of passages from which one must stand out. Among fewer, standard scores are smaller."""
MIN_STANDING_OUT, STANDING_OUT_SHARE = 3.25, 4.0
"""A passage stands out if its standard score and STANDING_OUT_SHARE times the share are at least
MIN_STANDING_OUT."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A passage that was found by words, by meaning, or by both. Ranks begin at 1; 0 means not found."""

    passage: int
    score: float
    bm25: float = 0.0
    bm25_rank: int = 0
    share: float = 0.0
    similarity: float = 0.0
    similarity_rank: int = 0


class Searcher:
    """Finds passages. Safe to use from any thread."""

    def __init__(self, database: Database, embedder: Embedder, max_wait: float = MAX_WAIT) -> None:
        self._database = database
        self._embedder = embedder
        self._max_wait = max_wait
        self._index = VectorIndex(database)

    def search(self, collections: Sequence[int], question: str, limit: int) -> tuple[PassageHit, ...]:
        """Finds at most `limit` passages of these collections, best first; () if none is near enough."""
        candidates = near_enough(*self.candidates(collections, question))[: limit * OVERFETCH]
        by_id = {one.passage: one for one in candidates}
        with self._database.reading() as connection:
            passages = passage_table.passages_of(connection, list(by_id))
        hits = [
            PassageHit(
                passage, one.score, one.bm25, one.bm25_rank, one.similarity, one.similarity_rank, one.share
            )
            for passage, one in ((passage, by_id[passage.id]) for passage in passages)
        ]
        return tuple(without_repeats(hits)[:limit])

    def candidates(self, collections: Sequence[int], question: str) -> tuple[list[Candidate], Cosines | None]:
        """Returns the candidates of both rankings, best first, and the cosines if meaning was searched, too."""
        model, question = self._embedder.model, question[:LONGEST_QUESTION]
        answer = self._embedder.embed([question])  # the engine begins while words are looked up
        ids = json.dumps(list(collections))
        with self._database.reading() as connection:
            by_words = search_bm25(connection, collections, question, CANDIDATES)
            documents = [row["id"] for row in connection.execute(READY, (ids,))]
        vectors = _in_time(answer, self._max_wait)
        cosines = None
        if vectors.size:
            others = [one.passage for one in by_words]
            cosines = self._index.nearest(model, vectors[0], documents, CANDIDATES, others)
        return fuse(by_words, cosines), cosines

    def similarities(self, texts: Sequence[str], others: Sequence[str]) -> Sequence[Sequence[float]]:
        """Returns the cosine of each text with each of the others.

        If the mean of a text's cosines with all passages is large, returns a tenth of the standard scores instead,
        which is about as large as the cosines of other models."""
        if not (model := self._embedder.model):
            return ()
        vectors = _in_time(self._embedder.embed([*texts, *others]), self._max_wait)
        if not vectors.size:
            return ()
        cosines = vectors[: len(texts)] @ vectors[len(texts) :].T
        means, deviations = self._index.spread(model, vectors[: len(texts)])
        scores = (cosines - means) / np.where(deviations > 0, deviations, inf) / 10
        rows: list[list[float]] = np.where(means < MIN_SIMILARITY, cosines, scores).tolist()
        return rows


def _in_time(answer: Future[Vectors], max_wait: float) -> Vectors:
    try:
        return answer.result(max_wait)
    except (AppError, NotReady):
        answer.cancel()
        return NO_VECTORS


def fuse(by_words: Sequence[Bm25Hit], cosines: Cosines | None) -> list[Candidate]:
    """Joins both rankings into one, best first.

    score(passage) = standard score of its cosine  +  SHARE_WORTH * share^2

    The ranking by words is hardly ever wrong if a passage has most words of the question, and arbitrary if the best
    passage only happens to share one of them. The share of the question that a passage covers distinguishes the two
    cases. The standard score compares a passage with the others of the collection, so that the sum is right for
    models whose cosines are all large, too (docs/notes/2026-11-retrieval.md has the numbers). Without vectors, the
    order is that of BM25."""
    words = {one.passage: (rank, one) for rank, one in enumerate(by_words, start=1)}
    if not cosines:
        return [Candidate(hit.passage, hit.score, hit.score, rank, hit.share) for rank, hit in words.values()]
    ranks = {passage: rank for rank, passage in enumerate(cosines.nearest, start=1)}
    found = [
        _candidate(
            passage, *words.get(passage, (0, Bm25Hit(passage, 0.0, 0.0))), ranks.get(passage, 0), cosines
        )
        for passage in dict.fromkeys([*words, *ranks])
    ]
    return sorted(found, key=lambda one: (-one.score, one.passage))


def _candidate(passage: int, word_rank: int, words: Bm25Hit, rank: int, cosines: Cosines) -> Candidate:
    score = cosines.standard_score(passage) + SHARE_WORTH * words.share**2
    similarity = cosines.known.get(passage, 0.0)
    return Candidate(passage, score, words.score, word_rank, words.share, similarity, rank)


def near_enough(candidates: Sequence[Candidate], cosines: Cosines | None) -> list[Candidate]:
    """Keeps the candidates that are related to the question, by thresholds that were measured.

    If only words are searched, at least one passage must have the share MIN_SHARE_ALONE, and all passages with half
    of that share are kept."""
    best_share = max((one.share for one in candidates), default=0.0)
    if cosines is None:
        least = MIN_SHARE_ALONE / 2 if best_share >= MIN_SHARE_ALONE else inf
        return [one for one in candidates if one.share >= least]
    if cosines.number >= MIN_PASSAGES and cosines.mean >= MIN_SIMILARITY:
        standing_out = cosines.standard_score(cosines.nearest[0]) + STANDING_OUT_SHARE * best_share
        return list(candidates) if standing_out >= MIN_STANDING_OUT else []
    return [one for one in candidates if one.share >= MIN_SHARE or one.similarity >= MIN_SIMILARITY]


def without_repeats(found: Sequence[PassageHit]) -> list[PassageHit]:
    """Removes repeats of better passages: equal texts in other documents, and overlaps in the same document."""
    kept: list[PassageHit] = []
    for one in found:
        if not any(_repeats(one.passage, better.passage) for better in kept):
            kept.append(one)
    return kept


def _repeats(one: Passage, better: Passage) -> bool:
    if one.document != better.document:
        return one.text == better.text
    shared = min(one.end, better.end) - max(one.start, better.start)
    return shared > REPEAT_SHARE * min(one.end - one.start, better.end - better.start)
