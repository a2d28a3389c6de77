"""Computes the recall and the reciprocal ranks of a search, with confidence intervals by bootstrap."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]
"""A number for each question."""

FIRST = 5
"""An answer counts as found if its rank is at most this."""
LAST = 10
"""The reciprocal rank of an answer after this rank counts as 0."""
DRAWS = 10_000


@dataclass(frozen=True, slots=True)
class Measured:
    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.mean:.3f} [{self.low:.3f}, {self.high:.3f}]"


def recalls(ranks: Sequence[int]) -> Values:
    """Return 1 for each answer among the FIRST passages, else 0. Ranks begin with 1; 0 means not found."""
    return np.array([1.0 if 1 <= rank <= FIRST else 0.0 for rank in ranks])


def reciprocals(ranks: Sequence[int]) -> Values:
    """Return the reciprocal of each rank up to LAST, and 0 for other ranks."""
    return np.array([1.0 / rank if 1 <= rank <= LAST else 0.0 for rank in ranks])


def measured(values: Values) -> Measured:
    """Return the mean of the values and its 95% confidence interval.

    To measure a difference of two searches, pass the difference for each question."""
    drawn = np.random.default_rng(0).integers(0, len(values), (DRAWS, len(values)))
    low, high = np.quantile(values[drawn].mean(axis=1), [0.025, 0.975])
    return Measured(float(values.mean()), float(low), float(high))
