"""A pool that knows how the text goes on, because plain decoding has written it before.

Random models hardly ever say what a pool guesses, so on them lookahead would prove little. The oracle
drafts what a test asks for: the truth, its beginning, nothing but errors, or the truth between wrong branches, so
that the rows that are accepted lie apart in the block.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from app.engine.lookahead.draft_tree import DraftTree
from app.values.messages import Origin
from tests.engine.architectures import VOCABULARY
from tests.engine.lookahead.drafting import tree_of

Line = tuple[int, ...]
"""Tokens, one behind the other."""
Draft = Callable[[Line], list[Line]]
"""What follows in truth -> the guesses that are made of it."""

DEPTH = 6
SURE = 0.9
"""How sure the oracle says it is of every guess, so that a planner who asks for the price pays it."""


@dataclass(frozen=True, slots=True)
class Oracle:
    """Knows the whole `text`, prompt included; at each place another of its `drafts` has its turn."""

    text: Line
    drafts: tuple[Draft, ...]

    def __len__(self) -> int:
        return len(self.text)

    def learn(self, text: Sequence[int], new: int, origin: Origin) -> None:
        """It knows already."""

    def expect(self, contexts: NDArray[np.int64]) -> None:
        """It has nothing to prepare."""

    def learn_successors(
        self, contexts: NDArray[np.int64], ids: NDArray[np.int64], logits: NDArray[np.float32]
    ) -> None:
        """It knows better."""

    def observe(self, context: Sequence[int], accepted: Sequence[int]) -> None:
        """It has nothing to learn."""

    def draft(self, context: Sequence[int], rows: int, depth: int, floor: float) -> DraftTree:
        """The guesses of this place's turn, about the true next tokens."""
        del floor
        place = len(context)
        truth = self.text[place : place + min(max(depth, 0), DEPTH)]
        lines = self.drafts[place % len(self.drafts)](truth)
        tree = tree_of(context[-1], lines, "output")
        tree.reaches[1:] = [SURE] * (len(tree) - 1)
        tree.cut(rows)
        return tree

    def continuation(self, context: Sequence[int], length: int) -> list[int]:
        """The truth, then tokens that mean nothing."""
        known = self.text[len(context) : len(context) + length]
        return [*known, *(place % VOCABULARY for place in range(length - len(known)))]


def right(truth: Line) -> list[Line]:
    """(1, 2, 3) -> 1 2 3"""
    return [truth]


def half_right(truth: Line) -> list[Line]:
    """(1, 2, 3, 4) -> 1 2 w w"""
    half = len(truth) // 2
    return [truth[:half] + wrong_tokens(truth[half:])]


def wrong(truth: Line) -> list[Line]:
    """(1, 2) -> w w"""
    return [wrong_tokens(truth)]


def branching(truth: Line) -> list[Line]:
    """(1, 2, 3) -> w w w and 1 w w and 1 2 w and, last of all, 1 2 3: no two accepted rows are neighbours."""
    return [truth[:kept] + wrong_tokens(truth[kept:]) for kept in range(len(truth) + 1)]


def wrong_tokens(truth: Line) -> Line:
    """As many tokens, none of them right."""
    return tuple((token + 1 + place) % VOCABULARY for place, token in enumerate(truth))
