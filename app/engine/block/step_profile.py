"""Defines the times of steps by their number of rows, and the row counts that give bitwise identical results.

A bucket is a row count that blocks are padded to. In half precision a row may be rounded differently in a block of
one row than in a block of 32, because another kernel adds in another order. Buckets with bitwise identical results
form a set. All decoders that use only buckets of one set write the same text. `step_timing.py` measures them.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import log2

import numpy as np

Buckets = tuple[int, ...]
"""Row counts, ascending."""


@dataclass(frozen=True, slots=True)
class StepTimes:
    """Measured seconds of a step at each bucket; all tuples are empty if nothing was measured.

    `per_token` is the number of seconds that each token of context adds to a step at each bucket; () if unknown."""

    buckets: Buckets = ()
    seconds: tuple[float, ...] = ()
    per_token: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if len(self.buckets) != len(self.seconds):
            raise ValueError(f"a time for each bucket is needed, not {self.buckets} and {self.seconds}")
        if not is_ascending(self.buckets) or any(second <= 0 for second in self.seconds):
            raise ValueError(
                f"buckets must ascend and times be above 0, not {self.buckets} and {self.seconds}"
            )
        if len(self.per_token) not in (0, len(self.buckets)) or any(second < 0 for second in self.per_token):
            raise ValueError(
                f"per_token needs a time of at least 0 for each bucket, or must be empty, not {self.per_token}"
            )

    def __bool__(self) -> bool:
        return bool(self.buckets)

    def seconds_for(self, rows: int) -> float:
        """Interpolate the seconds of a step of this many rows; 0.0 if nothing was measured.

        Outside the buckets it extrapolates from the nearest two, but not below the fastest measured step."""
        if len(self.buckets) < 2:
            return self.seconds[0] if self.seconds else 0.0
        right = min(max(bisect_left(self.buckets, rows), 1), len(self.buckets) - 1)
        (low, high), (cheap, dear) = self.buckets[right - 1 : right + 1], self.seconds[right - 1 : right + 1]
        line = cheap + (dear - cheap) * (rows - low) / (high - low)
        return max(line, min(self.seconds))

    def at(self, buckets: Buckets) -> "StepTimes":
        """Interpolate the times of steps at other buckets."""
        per_token = np.interp(buckets, self.buckets, self.per_token).tolist() if self.per_token else ()
        return StepTimes(buckets, tuple(map(self.seconds_for, buckets)), tuple(per_token))


@dataclass(frozen=True, slots=True)
class StepProfile:
    """The step times of a model on this machine, with ordinary (`free`) and with batch-invariant attention.

    Within each of the `bucket_sets` a row's results are bitwise identical. `note` describes what was found. If
    `is_whole` is false, the measurement was cut short on a busy machine, and another measurement may find more."""

    free: StepTimes = field(default_factory=StepTimes)
    batch_invariant: StepTimes = field(default_factory=StepTimes)
    bucket_sets: tuple[Buckets, ...] = ()
    note: str = ""
    is_whole: bool = True

    def __bool__(self) -> bool:
        return bool(self.free)

    def __post_init__(self) -> None:
        measured = self.batch_invariant.buckets
        for buckets in self.bucket_sets:
            if not buckets or not is_ascending(buckets) or not set(buckets) <= set(measured):
                raise ValueError(f"a bucket set needs measured buckets of {measured}, not {buckets}")

    def times(self, buckets: Buckets) -> StepTimes:
        """Return the step times for blocks that are padded to `buckets`; () means without padding."""
        return self.batch_invariant if buckets else self.free

    def cost(self, buckets: Buckets, rows: int) -> float:
        """Return the time of a step of this many rows, divided by that of a plain step; 0.0 if unknown.

        Both steps are padded to `buckets`. Steps beyond the largest bucket count as steps of this bucket."""
        times = self.times(buckets)
        if not times:
            return 0.0
        largest = max(buckets, default=rows)
        step, plain = (times.seconds_for(bucket_for(min(count, largest), buckets)) for count in (rows, 1))
        return step / plain


def is_ascending(buckets: Sequence[int]) -> bool:
    """Return whether all row counts are positive, and each is larger than the one before."""
    return all(low < high for low, high in pairwise((0, *buckets)))


def bucket_for(rows: int, buckets: Buckets) -> int:
    """Return the smallest bucket for these rows; `rows` without buckets. Raises ValueError if all are too small."""
    if not buckets:
        return rows
    if rows > buckets[-1]:
        raise ValueError(f"a block may have at most {buckets[-1]} rows here, not {rows}")
    return buckets[bisect_left(buckets, rows)]


EVEN = 1.5
"""A set counts as fast enough if no other set is expected to be faster by more than this factor. It is large, so
that noisy times do not change the choice between loads."""


def choose_buckets(profile: StepProfile) -> Buckets:
    """Choose, of the sets that are fast enough (EVEN), the set with the most buckets; () if there are no sets.

    The choice depends on the profile alone and never on the decoder, so that all decoders write the same text."""

    def speed(buckets: Buckets) -> float:
        seconds_for = profile.batch_invariant.seconds_for
        # Before any text is written, a step of n rows is assumed to commit 1 + log2(n) / 4 tokens.
        return max((1 + 0.25 * log2(bucket)) / seconds_for(bucket) for bucket in buckets)

    best = max(map(speed, profile.bucket_sets), default=0.0)
    good = [buckets for buckets in profile.bucket_sets if speed(buckets) * EVEN >= best]
    return max(good, key=len, default=())
