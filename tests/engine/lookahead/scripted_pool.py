"""A pool that drafts what it was told to, and remembers what it was taught."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import cycle, islice

import numpy as np
from numpy.typing import NDArray

from app.engine.lookahead.draft_tree import DraftTree
from app.values.messages import Origin
from tests.engine.lookahead.drafting import tree_of

Line = tuple[int, ...]


@dataclass
class ScriptedPool:
    """Drafts the same lines at every step, each guess one percent less likely than the one before."""

    drafts: Sequence[Line] = ()
    taught: list[tuple[list[int], int, Origin]] = field(default_factory=list)
    observed: list[tuple[list[int], list[int]]] = field(default_factory=list)
    said: list[dict[Line, list[int]]] = field(default_factory=list)
    """Of each step: the likeliest tokens behind each context; nothing stands before the text."""
    asked: list[tuple[int, int, float]] = field(default_factory=list)
    """Of each step: rows, depth and floor."""

    def __len__(self) -> int:
        return len(self.taught)

    def learn(self, text: Sequence[int], new: int, origin: Origin) -> None:
        self.taught.append((list(text), new, origin))

    def learn_successors(
        self, contexts: NDArray[np.int64], ids: NDArray[np.int64], logits: NDArray[np.float32]
    ) -> None:
        assert contexts.shape == (len(ids), 4) and ids.shape == logits.shape
        lines = [tuple(token for token in context if token >= 0) for context in contexts.tolist()]
        self.said.append(dict(zip(lines, ids.tolist(), strict=True)))

    def draft(self, context: Sequence[int], rows: int, depth: int, floor: float) -> DraftTree:
        self.asked.append((rows, depth, floor))
        tree = tree_of(context[-1], [line[: max(depth, 0)] for line in self.drafts], "prompt")
        tree.reaches = [0.99**node for node in range(len(tree))]
        tree.cut(rows)
        return tree

    def observe(self, context: Sequence[int], accepted: Sequence[int]) -> None:
        self.observed.append((list(context), list(accepted)))

    def continuation(self, context: Sequence[int], length: int) -> list[int]:
        """The context once more."""
        return list(islice(cycle(context), length))

    def tokens(self, origin: Origin) -> list[int]:
        """Every new token that was taught from this source."""
        return [token for text, new, source in self.taught if source == origin for token in text[-new:]]

    def lines(self, origin: Origin) -> list[list[int]]:
        """Every line that was taught from this source."""
        return [text for text, _, source in self.taught if source == origin]
