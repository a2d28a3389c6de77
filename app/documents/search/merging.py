"""Two rankings made one, by reciprocal ranks; what the words say counts by how much of the question they cover.

    worth(passage) = WORDS * share^2 / (DEPTH + rank by words)  +  1 / (DEPTH + rank by meaning)

Plain reciprocal ranks believe both rankings alike, always. But the words of a question are either there, and then
they are hardly ever wrong, or they are not, and then the best by words is any passage that happens to share one.
Its share of the question says which: with it the merged ranking is better than either alone, without it worse than
meaning alone (docs/retrieval.md has the numbers).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from app.documents.search.bm25 import Ranked

DEPTH = 20
"""How slowly worth falls with rank."""
WORDS = 2.0
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
    worth: float
    bm25: float = 0.0
    bm25_rank: int = 0
    share: float = 0.0
    similarity: float = 0.0
    similarity_rank: int = 0


def merged(by_words: Sequence[Ranked], by_meaning: Sequence[tuple[int, float]]) -> list[Candidate]:
    """Both rankings as one, best first."""
    words = {one.passage: (rank, one) for rank, one in enumerate(by_words, start=1)}
    meaning = {passage: (rank, cosine) for rank, (passage, cosine) in enumerate(by_meaning, start=1)}
    nowhere = (0, Ranked(0, 0.0, 0.0))
    found = [
        _candidate(passage, *words.get(passage, nowhere), *meaning.get(passage, (0, 0.0)))
        for passage in dict.fromkeys([*words, *meaning])
    ]
    return sorted(found, key=lambda one: (-one.worth, one.passage))


def with_similarity(candidates: Sequence[Candidate], cosines: Mapping[int, float]) -> list[Candidate]:
    """The same, told how near those are that only words have found."""
    return [
        replace(one, similarity=cosines.get(one.passage, 0.0)) if not one.similarity_rank else one
        for one in candidates
    ]


def near_enough(candidates: Sequence[Candidate], has_meaning: bool) -> list[Candidate]:
    """Those that have something to do with the question, by what was measured."""
    least = MIN_SHARE if has_meaning else MIN_SHARE_ALONE
    return [one for one in candidates if one.share >= least or one.similarity >= MIN_SIMILARITY]


def _candidate(passage: int, word_rank: int, words: Ranked, rank: int, similarity: float) -> Candidate:
    worth = _worth(WORDS * words.share**2, word_rank) + _worth(1.0, rank)
    return Candidate(passage, worth, words.score, word_rank, words.share, similarity, rank)


def _worth(weight: float, rank: int) -> float:
    return weight / (DEPTH + rank) if rank else 0.0
