"""Finds the passages that match a question: by words, and by meaning if there is an embedding model."""

import json
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotReady
from dataclasses import dataclass

from app.database.database import Database
from app.documents import passage_table
from app.documents.embedding import NO_VECTORS, Embedder, VectorIndex, Vectors
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
RANK_OFFSET = 20
"""A number that is added to each rank. With a larger number, scores fall more slowly with the rank."""
WORDS_WEIGHT = 2.0
"""Weight of the ranking by words for a passage with all words of the question; the ranking by meaning weighs 1."""
MIN_SHARE_ALONE = 0.24
"""If only words are searched, at least one passage must have this share of the question's words."""
MIN_SHARE = 0.45
"""If meaning is searched, too, a passage with at least this share of the question's words is near enough."""
MIN_SIMILARITY = 0.30
"""If meaning is searched, a passage with at least this cosine to the question is near enough."""


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

    def candidates(self, collections: Sequence[int], question: str) -> tuple[list[Candidate], bool]:
        """Returns the candidates of both rankings, best first, and whether meaning was searched, too."""
        model, question = self._embedder.model, question[:LONGEST_QUESTION]
        answer = self._embedder.embed([question])  # the engine begins while words are looked up
        ids = json.dumps(list(collections))
        with self._database.reading() as connection:
            by_words = search_bm25(connection, collections, question, CANDIDATES)
            documents = [row["id"] for row in connection.execute(READY, (ids,))]
        vectors = _in_time(answer, self._max_wait)
        if not vectors.size:
            return fuse(by_words, [], {}), False
        others = [one.passage for one in by_words]
        by_meaning, known = self._index.nearest(model, vectors[0], documents, CANDIDATES, others)
        return fuse(by_words, by_meaning, known), True

    def similarities(self, texts: Sequence[str], others: Sequence[str]) -> Sequence[Sequence[float]]:
        if not self._embedder.model:
            return ()
        vectors = _in_time(self._embedder.embed([*texts, *others]), self._max_wait)
        rows: list[list[float]] = (vectors[: len(texts)] @ vectors[len(texts) :].T).tolist()
        return rows


def _in_time(answer: Future[Vectors], max_wait: float) -> Vectors:
    try:
        return answer.result(max_wait)
    except (AppError, NotReady):
        answer.cancel()
        return NO_VECTORS


def fuse(
    by_words: Sequence[Bm25Hit], by_meaning: Sequence[tuple[int, float]], known: Mapping[int, float]
) -> list[Candidate]:
    """Joins both rankings into one, best first, by reciprocal rank fusion.

    `known` are the cosines of passages that were found by words.

    score(passage) = WORDS_WEIGHT * share^2 / (RANK_OFFSET + rank by words)  +  1 / (RANK_OFFSET + rank by meaning)

    If nothing was found by meaning, a passage's score is 1 / (RANK_OFFSET + rank by words).

    Plain reciprocal rank fusion weighs both rankings alike. But the ranking by words is hardly ever wrong if a
    passage has most words of the question, and arbitrary if the best passage only happens to share one of them.
    The share of the question that a passage covers distinguishes the two cases. With the share, the fused ranking
    is better than either ranking; without the share, it is worse than meaning alone
    (docs/notes/2026-11-retrieval.md has the numbers)."""
    words = {one.passage: (rank, one) for rank, one in enumerate(by_words, start=1)}
    meaning = {passage: (rank, cosine) for rank, (passage, cosine) in enumerate(by_meaning, start=1)}
    nowhere = (0, Bm25Hit(0, 0.0, 0.0))
    if not by_meaning:
        return [
            Candidate(hit.passage, _worth(1.0, rank), hit.score, rank, hit.share)
            for rank, hit in words.values()
        ]
    found = [
        _candidate(passage, *words.get(passage, nowhere), *meaning.get(passage, (0, known.get(passage, 0.0))))
        for passage in dict.fromkeys([*words, *meaning])
    ]
    return sorted(found, key=lambda one: (-one.score, one.passage))


def near_enough(candidates: Sequence[Candidate], has_meaning: bool) -> list[Candidate]:
    """Keeps the candidates that are related to the question, by thresholds that were measured.

    If only words are searched, at least one passage must have the share MIN_SHARE_ALONE, and all passages with half
    of that share are kept."""
    if has_meaning:
        return [one for one in candidates if one.share >= MIN_SHARE or one.similarity >= MIN_SIMILARITY]
    if all(one.share < MIN_SHARE_ALONE for one in candidates):
        return []
    return [one for one in candidates if one.share >= MIN_SHARE_ALONE / 2]


def _candidate(passage: int, word_rank: int, words: Bm25Hit, rank: int, similarity: float) -> Candidate:
    score = _worth(WORDS_WEIGHT * words.share**2, word_rank) + _worth(1.0, rank)
    return Candidate(passage, score, words.score, word_rank, words.share, similarity, rank)


def _worth(weight: float, rank: int) -> float:
    return weight / (RANK_OFFSET + rank) if rank else 0.0


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
