"""A pool that knows how the text goes on, because plain decoding has written it before.

Random models hardly ever say what an n-gram pool guesses, so on them lookahead would prove little. The oracle
drafts what a test asks for: the truth, its beginning, nothing but errors, or the truth between wrong branches, so
that the rows that are accepted lie apart in the block.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from app.engine.lookahead.pool import Candidate, NGram
from app.messages import Origin
from tests.engine.zoo import VOCABULARY

Draft = Callable[[NGram], list[NGram]]
"""What follows in truth -> the guesses that are made of it."""

DEPTH = 6


@dataclass(frozen=True, slots=True)
class Oracle:
    """Knows the whole `text`, prompt included; at each place another of its `drafts` has its turn."""

    text: tuple[int, ...]
    drafts: tuple[Draft, ...]

    def __len__(self) -> int:
        return len(self.text)

    def learn(self, text: Sequence[int], new: int, origin: Origin) -> None:
        """It knows already."""

    def candidates(self, context: Sequence[int]) -> list[Candidate]:
        """The guesses of this place's turn, about the true next tokens."""
        place = len(context)
        truth = self.text[place : place + DEPTH]
        draft = self.drafts[place % len(self.drafts)]
        return [Candidate(tokens, "output") for tokens in draft(truth) if tokens]

    def continuation(self, context: Sequence[int], length: int) -> list[int]:
        """The truth, then tokens that mean nothing."""
        known = self.text[len(context) : len(context) + length]
        return [*known, *(place % VOCABULARY for place in range(length - len(known)))]


def right(truth: NGram) -> list[NGram]:
    """(1, 2, 3) -> 1 2 3"""
    return [truth]


def half_right(truth: NGram) -> list[NGram]:
    """(1, 2, 3, 4) -> 1 2 w w"""
    half = len(truth) // 2
    return [truth[:half] + wrong_tokens(truth[half:])]


def wrong(truth: NGram) -> list[NGram]:
    """(1, 2) -> w w"""
    return [wrong_tokens(truth)]


def branching(truth: NGram) -> list[NGram]:
    """(1, 2, 3) -> w w w and 1 w w and 1 2 w and, last of all, 1 2 3: no two accepted rows are neighbours."""
    return [truth[:kept] + wrong_tokens(truth[kept:]) for kept in range(len(truth) + 1)]


def wrong_tokens(truth: NGram) -> NGram:
    """As many tokens, none of them right."""
    return tuple((token + 1 + place) % VOCABULARY for place, token in enumerate(truth))
