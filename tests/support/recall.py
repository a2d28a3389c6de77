"""Recall and rank of what a search finds, and how sure one can be of a difference: paired bootstrap."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]
"""One for each question."""

FIRST = 5
"""An answer counts as found among so many passages."""
LAST = 10
"""Behind it an answer earns no reciprocal rank."""
DRAWS = 10_000


@dataclass(frozen=True, slots=True)
class Measured:
    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.mean:.3f} [{self.low:.3f}, {self.high:.3f}]"


def recalls(ranks: Sequence[int]) -> Values:
    """1 for each answer among the first ones; ranks from 1, 0 for not found."""
    return np.array([1.0 if 1 <= rank <= FIRST else 0.0 for rank in ranks])


def reciprocals(ranks: Sequence[int]) -> Values:
    """One by its rank for each answer that is not too far behind."""
    return np.array([1.0 / rank if 1 <= rank <= LAST else 0.0 for rank in ranks])


def measured(values: Values) -> Measured:
    """The mean of values, one a question, and where it would lie with other questions of their kind.

    Of a difference: give the differences question by question."""
    drawn = np.random.default_rng(0).integers(0, len(values), (DRAWS, len(values)))
    low, high = np.quantile(values[drawn].mean(axis=1), [0.025, 0.975])
    return Measured(float(values.mean()), float(low), float(high))
