"""How much two texts have in common: what the cache and the pool of a chat need not read again."""

from collections.abc import Sequence


def common_length(left: Sequence[int], right: Sequence[int]) -> int:
    """How many leading items agree: ([1, 2, 3], [1, 2, 5, 6]) -> 2."""
    pairs = zip(left, right, strict=False)
    return next((place for place, (a, b) in enumerate(pairs) if a != b), min(len(left), len(right)))
