"""Draft trees for tests, from whole lines of guesses."""

from collections.abc import Iterable, Sequence

from app.engine.lookahead.draft_tree import DraftTree
from app.values.messages import Origin


def tree_of(current: int, lines: Iterable[Sequence[int]], origin: Origin) -> DraftTree:
    """Whole lines of guesses merged below the current token."""
    tree = DraftTree(current)
    for line in lines:
        node = 0
        for token in line:
            node = tree.add(node, token, origin)
    return tree
