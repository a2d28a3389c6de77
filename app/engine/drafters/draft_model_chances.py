"""Learns how likely the target (the model that checks the guesses) is to accept a guess, from the estimates of the
draft model and of the n-gram pool together.

A guess after a node that the draft model was asked about has three properties. The first is its gap class, or "not
named" if the draft model did not propose it. The second is its chance in the pool, or "unknown" if the pool does
not guess it. The third is the depth of the node. Each property adds to the guess's log odds (logistic regression):

    log odds = confidence * log odds of the gap class + weight of the class
             + slope * log odds of the pool, or the weight of "unknown"
             + weight of the depth

Every guess after an accepted token updates the weights, even if it had no row (AdaGrad, Duchi et al. 2011). All
classes share the confidence, so a draft model that is sure without reason loses confidence with its first mistakes.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, isfinite, log, sqrt

from app.engine.block.context_entries import LEADS
from app.engine.drafters.draft_model import Proposal
from app.engine.lookahead.acceptance_estimator import DRAFTED, GAP_CLASSES
from app.engine.lookahead.drafter import SUREST, Edge

DEPTHS = (1, 3)
"""Borders between the classes of a node's depth in the tree."""

GAP_ODDS = (-0.1, -0.5, -1.1, -1.8, -2.6, -3.6, -4.7, -5.7, 0.4, 0.8, 1.2, 1.6, 2.1, 2.7, 3.4, 4.0)
"""Log odds of a token that a good draft model names, by gap class: distances, then leads of the expected token."""
FIRST_CONFIDENCE, SCALE = 0.5, 0.5
"""The initial confidence, and the speed at which the confidence is learned, relative to other weights. The
confidence is low, so that a draft model about which little is known gets only rows that the pool does not need."""
GAP_WEIGHTS = (*((1 - FIRST_CONFIDENCE) * odds for odds in GAP_ODDS[:LEADS]), *[0.0] * (GAP_CLASSES - LEADS))
"""The first weights of the gap classes. The weights of distances restore the log odds that FIRST_CONFIDENCE takes
away. So at first only leads, which belong to expected tokens, are doubted; other tokens have low odds anyway."""
NOT_NAMED_WEIGHT, UNKNOWN_WEIGHT = -0.5, -1.4
"""The first weights of tokens that the draft model does not name, and of tokens that the pool does not know."""
NAMED_SLOPE, NOT_NAMED_SLOPE = 0.7, 1.0
"""The first slopes of the pool's log odds, for tokens that the draft model names and for other tokens."""
_NOT_NAMED = GAP_CLASSES
_UNKNOWN = _NOT_NAMED + 1
_SLOPES = _UNKNOWN + 1
_DEPTHS = _SLOPES + 2
_CONFIDENCE = _DEPTHS + len(DEPTHS) + 1
FIRST_WEIGHTS = (
    *(*GAP_WEIGHTS, NOT_NAMED_WEIGHT, UNKNOWN_WEIGHT),
    *(NAMED_SLOPE, NOT_NAMED_SLOPE),
    *[0.0] * (len(DEPTHS) + 1),
    FIRST_CONFIDENCE / SCALE,
)
RATE, LEAST_RATE, FIRST_SQUARES = 0.5, 0.01, 0.5
"""AdaGrad's learning rate, its minimum after the division, and the first sum of squared gradients."""
LEAST_CHANCE = 1e-4

Features = tuple[tuple[int, float], ...]
"""((index of a weight, its factor), ...)"""
Judged = tuple[int, float, Features]
"""(token, chance, the features that gave this chance), kept until the target's token is known."""


@dataclass(frozen=True, slots=True)
class LearnedWeights:
    """What was learned about a draft model's guesses: the weights, and AdaGrad's sums of squared gradients."""

    weights: tuple[float, ...] = FIRST_WEIGHTS
    squares: tuple[float, ...] = (FIRST_SQUARES,) * len(FIRST_WEIGHTS)

    def __post_init__(self) -> None:
        known = len(self.weights) == len(self.squares) == len(FIRST_WEIGHTS)
        if not known or not all(map(isfinite, self.weights)) or min(self.squares) <= 0:
            raise ValueError(f"{len(FIRST_WEIGHTS)} weights with squares above 0 are needed")


class DraftModelChances:
    """Estimates chances with the weights of one temperature, and updates these weights."""

    def __init__(self, learned: LearnedWeights | None = None) -> None:
        learned = learned or LearnedWeights()
        self._weights, self._squares = list(learned.weights), list(learned.squares)

    @property
    def learned(self) -> LearnedWeights:
        """The weights as values, to be stored between runs of the app."""
        return LearnedWeights(tuple(self._weights), tuple(self._squares))

    def joined(
        self, depth: int, proposed: Sequence[Proposal], pool: Sequence[Edge], trust: float
    ) -> tuple[list[Edge], list[Judged]]:
        """Join a node's guesses from both sources; return the edges, likeliest first, and the argument `judged` of
        `observe`.

        The pool's chances are multiplied by `trust` first. The returned edges' chances are divided by `trust`,
        because `grow` multiplies them by `trust`."""
        deep = (_DEPTHS + bisect_right(DEPTHS, depth), 1.0)
        known = {token: (chance * trust, cell) for chance, token, cell in pool}
        first = pool[0][1] if pool else None
        edges, judged = list[Edge](), list[Judged]()
        for token, gap in proposed:
            expected, cell = known.pop(token, (0.0, DRAFTED))
            by_pool = (_SLOPES, _log_odds(expected)) if expected else (_UNKNOWN, 1.0)
            named = (_CONFIDENCE, GAP_ODDS[gap] * SCALE)
            chance, features = self._chance((gap, 1.0), named, by_pool, deep)
            # The pool stays the origin of its first guess, even if the draft model proposes the same token.
            edges.append((chance / trust, token, cell if token == first else DRAFTED))
            judged.append((token, chance, features))
        for token, (expected, cell) in known.items():
            by_pool = (_SLOPES + 1, _log_odds(expected))
            chance, features = self._chance((_NOT_NAMED, 1.0), by_pool, deep)
            edges.append((chance / trust, token, cell))
            judged.append((token, chance, features))
        edges.sort(reverse=True)
        return edges, judged

    def observe(self, judged: Sequence[Judged], token: int) -> None:
        """Update the weights by the token that the target chose."""
        for guess, chance, features in judged:
            error = (guess == token) - chance
            for number, factor in features:
                slope = error * factor
                self._squares[number] += slope * slope
                rate = max(RATE / sqrt(self._squares[number]), LEAST_RATE)
                self._weights[number] += rate * slope

    def _chance(self, *features: tuple[int, float]) -> tuple[float, Features]:
        odds = sum(self._weights[number] * factor for number, factor in features)
        return min(1 / (1 + exp(-odds)), SUREST), features


def _log_odds(chance: float) -> float:
    chance = min(max(chance, LEAST_CHANCE), SUREST)
    return log(chance / (1 - chance))
