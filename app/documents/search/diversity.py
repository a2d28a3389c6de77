"""What is said once is enough: passages that say what a better one says make room for others."""

from collections.abc import Mapping, Sequence

import numpy as np

from app.document_messages import Found, Passage
from app.documents.embedding import Vectors

SAME = 0.5
"""Passages that share more of the shorter one than this count as one."""


def without_repeats(found: Sequence[Found]) -> list[Found]:
    """Leaves out what a better one says already: the same words, or the same place of the same text."""
    kept: list[Found] = []
    for one in found:
        if not any(_repeats(one.passage, better.passage) for better in kept):
            kept.append(one)
    return kept


def diverse(found: Sequence[Found], vectors: Mapping[int, Vectors], limit: int, share: float) -> list[Found]:
    """The best by maximal marginal relevance: each next one is near the question and far from those before it.

    `share` from 0 (as they are) to 1 (as unlike as can be); a passage without a vector is like none."""
    rest, chosen = list(found), list[Found]()
    top = max((one.score for one in found), default=0.0) or 1.0
    while rest and len(chosen) < limit:
        gains = [(1 - share) * one.score / top - share * _nearness(one, chosen, vectors) for one in rest]
        chosen.append(rest.pop(int(np.argmax(gains))))
    return chosen


def _nearness(one: Found, chosen: Sequence[Found], vectors: Mapping[int, Vectors]) -> float:
    own = vectors.get(one.passage.id)
    others = [vectors[other.passage.id] for other in chosen if other.passage.id in vectors]
    return float(max(own @ other for other in others)) if own is not None and others else 0.0


def _repeats(one: Passage, better: Passage) -> bool:
    if one.document != better.document:
        return one.text == better.text
    shared = min(one.end, better.end) - max(one.start, better.start)
    return shared > SAME * min(one.end - one.start, better.end - better.start)
