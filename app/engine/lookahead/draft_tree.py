"""The verification branch: guesses as a tree below the current token, so that a shared prefix costs one row.

    guesses 8 9 and 8 6 and 5, current token 7:        7
                                                      / \\
                                                     8   5
                                                    / \\
                                                   9   6         5 rows instead of 1 + 2 + 2 + 1
"""

from collections.abc import Iterable

import numpy as np

from app.engine.block import Visible
from app.engine.lookahead.pool import Candidate
from app.messages import Origin


class DraftTree:
    """Nodes in the order they were added; node 0 is the current token and every parent precedes its children."""

    def __init__(self, current: int) -> None:
        self.tokens = [current]
        self.origins: list[Origin] = ["model"]
        self.parents = [-1]
        self.depths = [0]
        self._children: list[dict[int, int]] = [{}]

    def __len__(self) -> int:
        return len(self.tokens)

    def child(self, node: int, token: int) -> int | None:
        """The node that guesses `token` behind `node`, if there is one."""
        return self._children[node].get(token)

    def add(self, node: int, token: int, origin: Origin) -> int:
        """The node that guesses `token` behind `node`, made if need be."""
        known = self._children[node].get(token)
        if known is not None:
            return known
        added = self._children[node][token] = len(self)
        self.tokens.append(token)
        self.origins.append(origin)
        self.parents.append(node)
        self.depths.append(self.depths[node] + 1)
        self._children.append({})
        return added

    def visible(self) -> Visible:
        """[T, T]: each node sees its ancestors and itself."""
        seen = np.eye(len(self), dtype=np.bool_)
        for node in range(1, len(self)):
            seen[node] |= seen[self.parents[node]]
        return seen


def grow_tree(current: int, candidates: Iterable[Candidate], depth: int) -> DraftTree:
    """The candidates merged below the current token, each cut to `depth` tokens."""
    tree = DraftTree(current)
    for candidate in candidates:
        node = 0
        for token in candidate.tokens[:depth]:
            node = tree.add(node, token, candidate.origin)
    return tree
