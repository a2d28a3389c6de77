"""Seconds of a step by its rows, as the tuner sees them: measured at load, refined by every real step.

A drafted step costs more than its forward pass: looking up guesses, checking them and learning from them take time
on the host. So `plain`, a step without all that, is kept apart, and the curve begins with a guess of that time.

A real step that takes longer than expected may mean two things: the machine is slower just now, which says nothing
about rows, or steps of this bucket cost more than was measured. So steps are compared with each other, some 32 at a
time: what all of them have in common is the machine's pace, and only what is left is the bucket's. The curve says
2.0 ms plain and 2.4 ms for 8 rows, and now come, in medians of a round,

    4.0 ms plain, 4.8 ms for 8 rows      the machine is slower; the curve stays
    2.0 ms plain, 4.8 ms for 8 rows      8 rows cost more than twice a plain step; the neighbours of 8 follow
    4.0 ms plain, and nothing else       the cause is unknown; the curve stays

Each row attends to the whole context, so rows cost more in a long chat. `move_to` tells how long the context is;
what steps take is compared with what they were expected to take there.

It belongs to the model's statistics, goes on learning from reply to reply, and its shape is kept on disk.
"""

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, inf, log, log2
from statistics import median

from app.engine.block.step_profile import Buckets, StepTimes, bucket_for

HOST, HOST_ROW = 2e-4, 8e-6
"""Seconds that the host is guessed to spend on a drafted step and on each of its rows, before any was seen."""
ROUND = 32
"""Steps that are held against each other."""
BELIEF, MOST_BELIEF = 1, 8
"""Steps that the measure at load counts for, and what was learned since: one more with each round, at most."""
MOST_SURPRISE = log(2)
"""Steps of a bucket that took more than twice or less than half of what was expected count as just that."""
PROOF, STALE = 4, 256
"""A curve is proven by so many real steps that drafted, and no longer after so many steps that did not."""
STRIDE = 64
"""Tokens of context from one drawing of the curve to the next."""
PLAIN = -1
"""What stands for plain steps among the indexes of buckets."""
LARGEST_BUCKET = 128
BUCKETS = (1, 2, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)
"""Row counts that a free block may have: kernels are prepared for each count, so few are better than many."""


@dataclass(frozen=True, slots=True)
class CurveShape:
    """What real steps made of a curve, in seconds: a plain step, and a drafted one at each measured bucket."""

    plain: float
    drafted: tuple[float, ...]

    def __post_init__(self) -> None:
        if not all(0 < second < inf for second in (self.plain, *self.drafted)):
            raise ValueError(f"steps take time, got {self}")


class StepCurve:
    """`seconds` [rows] up to the largest bucket; padded rows cost as much as their bucket."""

    def __init__(self, times: StepTimes, padded_to: Buckets, shape: CurveShape | None = None) -> None:
        """The shape, if there is one, has the same buckets as the times."""
        # Memory may be too small for wider blocks.
        self.largest = min(LARGEST_BUCKET, *times.buckets[-1:], *padded_to[-1:])
        self.buckets = (*(rows for rows in padded_to or BUCKETS if rows < self.largest), self.largest)
        self._measured_buckets = times.buckets
        self._padded_to = padded_to
        self._drafted = PROOF if shape else 0
        shape = shape or _measured(times, padded_to)
        self._plain, self._measured = shape.plain, list(shape.drafted)
        self._rounds: Counter[int] = Counter()  # in which a bucket was seen
        self._round: defaultdict[int, list[float]] = defaultdict(list)  # logarithms of seconds, by bucket
        self._steps = self._newest_drafted = 0
        self._per_token = times.per_token or (0.0,) * len(times.buckets)
        self._context = 0
        self._draw()

    @property
    def shape(self) -> CurveShape:
        """What is to be kept on disk."""
        return CurveShape(self._plain, tuple(self._measured))

    def move_to(self, context: int) -> None:
        """Draw the curve of steps that read `context` tokens, if that is far from before."""
        if abs(context - self._context) >= STRIDE:
            self._context = context
            self._draw()

    @property
    def is_unproven(self) -> bool:
        """Whether a drafted step should be tried, to see what it really takes."""
        return self._drafted < PROOF or self._steps - self._newest_drafted > STALE

    def refine(self, rows: int, seconds: float) -> None:
        """Learn from the seconds of a real step of so many rows."""
        self._observe(self._bucket_index(rows), seconds / self._expected(rows))
        if rows > 1:
            self._drafted += 1
            self._newest_drafted = self._steps

    def refine_plain(self, seconds: float) -> None:
        """Learn from the seconds of a plain step."""
        self._observe(PLAIN, seconds / self._at_context(self._plain, self._bucket_index(1)))

    def _observe(self, bucket: int, ratio: float) -> None:
        self._round[bucket].append(log(ratio))
        self._steps += 1
        if self._steps % ROUND == 0:
            self._settle()
            self._round.clear()
            self._draw()

    def _settle(self) -> None:
        """Scale each bucket by how much longer its steps took than all steps of the round."""
        pace = median(step for steps in self._round.values() for step in steps)
        for bucket, steps in self._round.items():
            belief = min(BELIEF + self._rounds[bucket], MOST_BELIEF)
            self._rounds[bucket] += 1
            surprise = min(max(median(steps) - pace, -MOST_SURPRISE), MOST_SURPRISE)
            surprise = surprise * len(steps) / (len(steps) + belief)
            if bucket == PLAIN:
                self._plain *= exp(surprise)
                continue
            for other, rows in enumerate(self._measured_buckets):  # neighbours move by less
                nearness = 2 ** -abs(log2(rows / self._measured_buckets[bucket]))
                self._measured[other] *= exp(nearness * surprise)

    def _bucket_index(self, rows: int) -> int:
        """The index of the measured bucket that a step of so many rows is counted for."""
        return min(bisect_left(self._measured_buckets, self._fed(rows)), len(self._measured_buckets) - 1)

    def _expected(self, rows: int) -> float:
        """Seconds of such a step at this context, on the line between the two nearest measured buckets."""
        bucket = self._bucket_index(rows)
        few = range(max(bucket - 1, 0), bucket + 1)
        times = StepTimes(
            tuple(self._measured_buckets[each] for each in few),
            tuple(self._at_context(self._measured[each], each) for each in few),
        )
        return times.seconds_for(self._fed(rows))

    def _fed(self, rows: int) -> int:
        """The rows that a block of so many is padded to."""
        return bucket_for(min(rows, self.largest), self._padded_to)

    def _at_context(self, measured: float, bucket: int) -> float:
        """Add what the context costs to the measured seconds of a bucket's step."""
        return measured + self._per_token[bucket] * self._context

    def _draw(self) -> None:
        # Nothing costs less than a plain step: if the two do not agree, the better known one counts more.
        first = self._bucket_index(1)  # narrower ones are not fed
        weights = [
            BELIEF + self._rounds[bucket] for bucket in (PLAIN, *range(first, len(self._measured_buckets)))
        ]
        here = [self._at_context(self._plain, first)]
        here += [self._at_context(self._measured[each], each) for each in range(first, len(self._measured))]
        self.plain, *straight = ascending(here, weights)
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
    """The closest times that never fall: neighbours out of order share their mean (pool adjacent violators).

    A step of more rows never takes less time; where it was measured so, that was noise."""
    pools: list[tuple[float, float, int]] = []  # mean, weight, size
    for second, weight in zip(seconds, weights, strict=True):
        mean, weighs, size = second, weight, 1
        while pools and pools[-1][0] > mean:
            before, total_weight, count = pools.pop()
            mean = (before * total_weight + mean * weighs) / (total_weight + weighs)
            weighs, size = weighs + total_weight, size + count
        pools.append((mean, weighs, size))
    return [mean for mean, _, size in pools for _ in range(size)]
