"""Reciprocal rank fusion of two rankings. The ranking by words counts by how much of the question it covers.

    score(passage) = WORDS_WEIGHT * share^2 / (RANK_OFFSET + rank by words)  +  1 / (RANK_OFFSET + rank by meaning)

Plain reciprocal rank fusion weighs both rankings alike. But either a passage has the words of the question, and
then the ranking by words is hardly ever wrong, or the best passage by words is any that happens to share one. The
share of the question that a passage covers tells which. With it the fused ranking is better than either alone,
without it worse than meaning alone (docs/notes/2026-11-retrieval.md has the numbers).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from app.documents.search.bm25 import Bm25Hit

RANK_OFFSET = 20
"""How slowly score falls with rank."""
WORDS_WEIGHT = 2.0
"""What a passage that has the whole question counts by its words, against 1 by its meaning."""
MIN_SHARE_ALONE = 0.25
"""Share of the question below which its words alone find nothing."""
MIN_SHARE = 0.45
"""The same where meaning is asked, too."""
MIN_SIMILARITY = 0.30
"""Cosine below which meaning finds nothing."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A passage that was found by words, by meaning, or by both; ranks from 1, 0 for not."""

    passage: int
    score: float
    bm25: float = 0.0
    bm25_rank: int = 0
    share: float = 0.0
    similarity: float = 0.0
    similarity_rank: int = 0


def fuse(by_words: Sequence[Bm25Hit], by_meaning: Sequence[tuple[int, float]]) -> list[Candidate]:
    """Both rankings as one, best first."""
    words = {one.passage: (rank, one) for rank, one in enumerate(by_words, start=1)}
    meaning = {passage: (rank, cosine) for rank, (passage, cosine) in enumerate(by_meaning, start=1)}
    nowhere = (0, Bm25Hit(0, 0.0, 0.0))
    found = [
        _candidate(passage, *words.get(passage, nowhere), *meaning.get(passage, (0, 0.0)))
        for passage in dict.fromkeys([*words, *meaning])
    ]
    return sorted(found, key=lambda one: (-one.score, one.passage))


def with_similarity(candidates: Sequence[Candidate], cosines: Mapping[int, float]) -> list[Candidate]:
    """The same, with similarities for those found by words alone."""
    return [
        replace(one, similarity=cosines.get(one.passage, 0.0)) if not one.similarity_rank else one
        for one in candidates
    ]


def near_enough(candidates: Sequence[Candidate], has_meaning: bool) -> list[Candidate]:
    """Those that have something to do with the question, by what was measured."""
    least = MIN_SHARE if has_meaning else MIN_SHARE_ALONE
    return [one for one in candidates if one.share >= least or one.similarity >= MIN_SIMILARITY]


def _candidate(passage: int, word_rank: int, words: Bm25Hit, rank: int, similarity: float) -> Candidate:
    score = _worth(WORDS_WEIGHT * words.share**2, word_rank) + _worth(1.0, rank)
    return Candidate(passage, score, words.score, word_rank, words.share, similarity, rank)


def _worth(weight: float, rank: int) -> float:
    return weight / (RANK_OFFSET + rank) if rank else 0.0
