"""What is said once is enough: passages that say what a better one says make room for others."""

from collections.abc import Sequence

from app.document_messages import Passage, PassageHit

SAME = 0.5
"""Passages that share more of the shorter one than this count as one."""


def without_repeats(found: Sequence[PassageHit]) -> list[PassageHit]:
    """Leaves out what a better one says already: the same words, or the same place of the same text."""
    kept: list[PassageHit] = []
    for one in found:
        if not any(_repeats(one.passage, better.passage) for better in kept):
            kept.append(one)
    return kept


def _repeats(one: Passage, better: Passage) -> bool:
    if one.document != better.document:
        return one.text == better.text
    shared = min(one.end, better.end) - max(one.start, better.start)
    return shared > SAME * min(one.end - one.start, better.end - better.start)
