"""The seconds of a step by its number of rows, for the tuner (`row_planner.py`): measured at load, refined by real
steps.

A drafted step takes longer than its forward pass, because the host looks up guesses, checks them and learns from
them. So the time of a plain step (`plain`) is kept separately, and the times of drafted steps begin as the measured
forward pass plus an estimate of the host's time.

A real step that takes longer than expected may have two causes: the machine is slower at the moment, or steps of
its bucket (`step_profile.py`) cost more than was measured. So the steps of a round of 32 are compared with each
other. Their median ratio of real to expected time is the machine's pace. Only a bucket's deviation from this pace
is attributed to the bucket. If the curve expects 2.0 ms for a plain step and 2.4 ms for 8 rows, a round of mostly
plain steps with these medians means:

    4.0 ms plain, 4.8 ms for 8 rows      the machine is slower; the curve stays
    2.0 ms plain, 4.8 ms for 8 rows      the time of 8 rows rises; the times of other buckets rise less

Each row attends to the whole context, so rows cost more in a long chat.
"""

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, inf, log, log2
from statistics import median

from app.engine.block.step_profile import Buckets, StepTimes, bucket_for

HOST, HOST_ROW = 2e-4, 8e-6
"""Estimated seconds of the host for a drafted step and for each of its rows, before steps were timed."""
ROUND = 32
"""Number of steps that are compared with each other."""
BELIEF, MOST_BELIEF = 1, 8
"""Weight of a bucket's present time, in steps: BELIEF for the time measured at load, one more with each round
that had steps of the bucket, at most MOST_BELIEF."""
MOST_SURPRISE = log(2)
"""Limit of a bucket's deviation from the pace in one round: a factor of two, as a logarithm."""
PROOF, STALE = 4, 256
"""A curve is proven by PROOF real drafted steps or a stored shape, and unproven again after STALE steps without a
drafted step. The time of a plain step is proven by PROOF plain steps, and unproven again after STALE steps without
one."""
STRIDE = 64
"""The curve is computed again when the context has changed by this many tokens."""
PLAIN = -1
"""The key of plain steps among the steps of a round; a drafted step's key is the index of its bucket."""
LARGEST_BUCKET = 128
BUCKETS = (1, 2, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)
"""The row counts of steps if blocks are not padded. They are few, because kernels are prepared for each count."""


@dataclass(frozen=True, slots=True)
class CurveShape:
    """A curve refined by real steps: seconds of a plain step, and of a drafted step at each bucket."""

    plain: float
    drafted: tuple[float, ...]

    def __post_init__(self) -> None:
        if not all(0 < second < inf for second in (self.plain, *self.drafted)):
            raise ValueError("the seconds of every step must be above 0 and finite")


class StepTimeCurve:
    """`seconds[n]` is the expected time of a drafted step of n rows, and `plain` that of a plain step."""

    def __init__(self, times: StepTimes, padded_to: Buckets, shape: CurveShape | None = None) -> None:
        """Start from a stored `shape`, which has the buckets of `times`; without a shape, start from `times`."""
        # Blocks wider than the last measured bucket may not fit in memory.
        self.largest = min(LARGEST_BUCKET, *times.buckets[-1:], *padded_to[-1:])
        self.buckets = (*(rows for rows in padded_to or BUCKETS if rows < self.largest), self.largest)
        self._measured_buckets = times.buckets
        self._padded_to = padded_to
        self._drafted = PROOF if shape else 0
        shape = shape or _measured(times, padded_to)
        self._plain, self._measured = shape.plain, list(shape.drafted)
        self._rounds: Counter[int] = Counter()  # rounds that had steps of the bucket, by bucket
        # Logarithms of real over expected seconds, by bucket.
        self._round: defaultdict[int, list[float]] = defaultdict(list)
        self._steps = self._newest_drafted = 0
        self._plain_steps = self._newest_plain = 0
        self._per_token = times.per_token or (0.0,) * len(times.buckets)
        self._context = 0
        self._compute()

    @property
    def shape(self) -> CurveShape:
        """The part of the curve that is kept on disk."""
        return CurveShape(self._plain, tuple(self._measured))

    def move_to(self, context: int) -> None:
        """Move to a context of this many tokens; computes the curve again if the change is STRIDE or more."""
        if abs(context - self._context) >= STRIDE:
            self._context = context
            self._compute()

    @property
    def is_unproven(self) -> bool:
        """Whether a drafted step should be tried, to measure its real time."""
        return self._drafted < PROOF or self._steps - self._newest_drafted > STALE

    @property
    def is_plain_unproven(self) -> bool:
        """Whether a plain step should be tried, because few were timed, or none recently. The saved time, which the
        page shows, is computed from the time of a plain step."""
        return self._plain_steps < PROOF or self._steps - self._newest_plain > STALE

    def refine(self, rows: int, seconds: float) -> None:
        """Learn from the seconds of a real drafted step of `rows` rows."""
        self._observe(self._bucket_index(rows), seconds / self._here.seconds_for(self._fed(rows)))
        if rows > 1:
            self._drafted += 1
            self._newest_drafted = self._steps

    def refine_plain(self, seconds: float) -> None:
        """Learn from the seconds of a real plain step."""
        self._observe(PLAIN, seconds / self._at_context(self._plain, self._bucket_index(1)))
        self._plain_steps += 1
        self._newest_plain = self._steps

    def _observe(self, bucket: int, ratio: float) -> None:
        self._round[bucket].append(log(ratio))
        self._steps += 1
        if self._steps % ROUND == 0:
            self._settle()
            self._round.clear()
            self._compute()

    def _settle(self) -> None:
        """Compare real with expected times: correct each bucket's time by the deviation of its steps from the pace,
        and the times of other buckets by less."""
        pace = median(step for steps in self._round.values() for step in steps)
        for bucket, steps in self._round.items():
            belief = min(BELIEF + self._rounds[bucket], MOST_BELIEF)
            self._rounds[bucket] += 1
            surprise = min(max(median(steps) - pace, -MOST_SURPRISE), MOST_SURPRISE)
            surprise = surprise * len(steps) / (len(steps) + belief)
            if bucket == PLAIN:
                self._plain *= exp(surprise)
                continue
            for index, rows in enumerate(self._measured_buckets):
                nearness = 2 ** -abs(log2(rows / self._measured_buckets[bucket]))
                self._measured[index] *= exp(nearness * surprise)

    def _bucket_index(self, rows: int) -> int:
        """Return the index of the measured bucket to which a step of `rows` rows is attributed."""
        return min(bisect_left(self._measured_buckets, self._fed(rows)), len(self._measured_buckets) - 1)

    def _fed(self, rows: int) -> int:
        """Return the number of rows to which a block of `rows` rows is padded."""
        return bucket_for(min(rows, self.largest), self._padded_to)

    def _at_context(self, measured: float, bucket: int) -> float:
        """Add the cost of the context to the measured seconds of a bucket's step."""
        return measured + self._per_token[bucket] * self._context

    def _compute(self) -> None:
        # A drafted step takes at least as long as a plain step, and as any smaller step. Times that contradict this
        # are averaged; a time with more rounds counts more.
        first = self._bucket_index(1)  # the bucket that a block of one row is padded to
        weights = [
            BELIEF + self._rounds[bucket] for bucket in (PLAIN, *range(first, len(self._measured_buckets)))
        ]
        here = tuple(self._at_context(seconds, bucket) for bucket, seconds in enumerate(self._measured))
        self._here = StepTimes(self._measured_buckets, here)
        self.plain, *straight = ascending([self._at_context(self._plain, first), *here[first:]], weights)
        times = StepTimes(self._measured_buckets[first:], tuple(straight))
        counts = range(1, self.largest + 1)
        self.seconds = [0.0, *(times.seconds_for(bucket_for(count, self._padded_to)) for count in counts)]
        one = self.seconds[1]
        slopes = [(self.seconds[count] - one) / (count - 1) for count in counts[1:]]
        self.cheapest_row = min(slopes, default=0.0)


def _measured(times: StepTimes, padded_to: Buckets) -> CurveShape:
    drafted = (
        second + HOST + HOST_ROW * rows for rows, second in zip(times.buckets, times.seconds, strict=True)
    )
    return CurveShape(times.seconds_for(bucket_for(1, padded_to)), tuple(drafted))


def ascending(seconds: Sequence[float], weights: Sequence[float]) -> list[float]:
    """Return the closest times that never fall (isotonic regression): neighbours out of order get their mean."""
    groups: list[tuple[float, float, int]] = []  # mean, weight, size
    for mean, weight in zip(seconds, weights, strict=True):
        size = 1
        while groups and groups[-1][0] > mean:
            earlier_mean, earlier_weight, earlier_size = groups.pop()
            mean = (earlier_mean * earlier_weight + mean * weight) / (earlier_weight + weight)
            weight, size = weight + earlier_weight, size + earlier_size
        groups.append((mean, weight, size))
    return [mean for mean, _, size in groups for _ in range(size)]
