"""The verification branch: a tree of guesses below the current token. Shared prefixes are fed only once.

    guesses 8 9 and 8 6 and 5, current token 7:        7
                                                      / \\
                                                     8   5
                                                    / \\
                                                   9   6         5 rows instead of 1 + 2 + 2 + 1

The reach of a node is the chance that the model accepts all guesses down to it: the product of the chances of
the edges on its path. A tree that is grown best first has its reaches in descending order, so that truncating
it drops the least likely rows.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from app.engine.lookahead.context_table import last_tokens
from app.values.messages import Origin


@dataclass(slots=True, eq=False)
class DraftTree:
    """The nodes as columns, parents before children. Node 0 is the current token, by default the only node."""

    tokens: list[int]
    origins: list[Origin] = field(default_factory=lambda: ["model"])
    parents: list[int] = field(default_factory=lambda: [-1])
    depths: list[int] = field(default_factory=lambda: [0])
    reaches: list[float] = field(default_factory=lambda: [1.0])

    def __len__(self) -> int:
        return len(self.tokens)

    def child(self, node: int, token: int) -> int | None:
        """Return the child of `node` that guesses `token`, or None."""
        later = node
        try:
            while True:
                later = self.tokens.index(token, later + 1)
                if self.parents[later] == node:
                    return later
        except ValueError:  # no later node guesses this token
            return None

    def path(self, node: int) -> list[int]:
        """Return the guesses on the path to this node, without the current token."""
        found = list[int]()
        while node > 0:
            found.append(self.tokens[node])
            node = self.parents[node]
        return found[::-1]

    def add(self, node: int, token: int, origin: Origin, reach: float = 0.0) -> int:
        """Return the child of `node` that guesses `token`; add it if it does not exist."""
        known = self.child(node, token)
        if known is not None:
            return known
        self.tokens.append(token)
        self.origins.append(origin)
        self.parents.append(node)
        self.depths.append(self.depths[node] + 1)
        self.reaches.append(reach)
        return len(self) - 1

    def cut(self, size: int) -> None:
        """Keep the first `size` nodes, at least the current token."""
        for column in self.tokens, self.origins, self.parents, self.depths, self.reaches:
            del column[max(size, 1) :]

    def contexts(self, text: Sequence[int]) -> list[list[int]]:
        """Return the last four tokens up to each node [T, 4]. `text` ends with the current token."""
        found = [last_tokens(text)]
        for node in range(1, len(self)):
            found.append([*found[self.parents[node]][1:], self.tokens[node]])
        return found
