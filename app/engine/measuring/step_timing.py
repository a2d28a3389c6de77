"""Measures how long a loaded model's steps take at each bucket (a row count that blocks are padded to), and which
buckets give bitwise identical results.

If possible, two buckets are also timed after a longer context, because each row attends to all tokens of the
context. On a busy machine the rounds end early, so that a chat need not wait long. `same_bits.py` compares the
results of the buckets, beginning with the most useful buckets.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import count, pairwise
from math import inf
from statistics import median
from time import perf_counter

import numpy as np
import torch
from torch import Tensor

from app.engine.block.block import chain_block
from app.engine.block.context_entries import SUCCESSORS
from app.engine.block.step_profile import Buckets, StepProfile, StepTimes
from app.engine.drafters.draft_model import SequenceReader
from app.engine.lookahead.drafter import GREEDY
from app.engine.machine.hardware import dtype_name, is_exact
from app.engine.machine.process_memory import is_out_of_memory
from app.engine.measuring.same_bits import (
    group_by_bits,
    has_experts,
    is_row_independent,
    layers_with_rows,
    read_layers,
    read_text,
)
from app.engine.runner.kv_cache import BlockCache
from app.engine.runner.runner import BlockRunner
from app.engine.runner.sequential_runner import SequentialRunner

MEASURED_BUCKETS: Buckets = (1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128)
FEW_BUCKETS: Buckets = (1, 2, 4, 8, 16, 32, 64)
SLOW, SLOW_ON_CPU = 0.1, 0.01
"""If a step of one row takes longer than this many seconds, only row counts in FEW_BUCKETS are measured. The limit
is lower on a CPU, because there blocks of many rows take many times as long."""
PREFIX = 24
"""Number of tokens before a measured block, unless a longer context is timed."""
CONTEXT = 1024
"""Number of tokens before a block that is timed in a longer context."""
LONG_BUCKETS: Buckets = (1, 32)
ROUNDS = (2, 9)
SECONDS = 0.3
"""About how many seconds steps are timed with each kind of attention, in at least ROUNDS[0] and at most ROUNDS[1]
rounds. The kinds are the usual attention, and the batch-invariant attention, with which a row's result depends only
on the tokens before the row and the number of rows."""
LONGEST = 8.0
"""About the maximum seconds of a measurement: half of them for timing, half for comparing results."""

LONG_PREFIX = 2048
"""Number of tokens before a block when batch-invariant attention is timed as in a long chat."""
_SAME_TEXT = "{}: the same text with lookahead on and off"
USEFUL_FIRST: Buckets = (32, 1, 16, 64, 8, 4, 24, 48, 128, 12, 96, 2)
ANY_ROWS: Buckets = (*range(1, 17), *range(18, 33, 2), *range(36, 65, 4), *range(72, 129, 8))
"""Buckets of models that compute each row independently. They are close together, so blocks need little padding."""
ALWAYS_READ = 2
"""How many buckets of USEFUL_FIRST (32 and 1) are compared even if the time is over, because without bucket 1 the
plain steps of a slow model would be padded to 32 rows."""
SHORT, LONG, BEFORE = 1, 33, 24
"""Rows of a draft model's two timed passes, and the number of tokens before them."""
QUESTION_SECONDS = 0.2
"""About how many seconds a draft model's passes are timed."""

MeasuredRunner = BlockRunner | SequentialRunner
ProgressListener = Callable[[int, int], None]
"""Called with (done, total); an exception that it raises ends the measurement."""


def measured_text(runner: MeasuredRunner, prefix: int = PREFIX) -> list[int]:
    """Make random tokens for the prefix and the largest block, but fewer if the model uses another rotary table for
    longer texts."""
    return random_tokens(runner.vocabulary, min(prefix + MEASURED_BUCKETS[-1], runner.horizon(0)))


def random_tokens(vocabulary: int, length: int) -> list[int]:
    """Draw random tokens; equal arguments give equal tokens."""
    return [int(token) for token in np.random.default_rng(0).integers(0, vocabulary, length)]


@dataclass(frozen=True, slots=True)
class StepTimer:
    """Times blocks after `prefix` tokens of the text. Rounds after the first begin only before `end`."""

    runner: MeasuredRunner
    text: Sequence[int]
    progress: ProgressListener
    clock: Callable[[], float]
    end: float
    prefix: int = PREFIX

    def affordable(self, is_padded: bool = True) -> Buckets:
        """Return the buckets to measure; those that are too large for the text or the runner are left out. Only
        buckets of FEW_BUCKETS are measured if a step takes long or, on a CPU, if blocks are not padded."""
        on_cpu = self.runner.model.device.type == "cpu"
        is_free_on_cpu = on_cpu and not is_padded and not self.runner.buckets
        one_row = 0.0 if is_free_on_cpu else self.without_progress().times((1,), False).seconds_for(1)
        is_few = is_free_on_cpu or one_row > (SLOW_ON_CPU if on_cpu else SLOW)
        wanted = self.runner.buckets or MEASURED_BUCKETS
        if is_few:  # only buckets in `wanted`, because the runner pads blocks to its own buckets
            wanted = tuple(rows for rows in wanted if rows in FEW_BUCKETS)
        most = min(len(self.text) - PREFIX, self.runner.max_rows)
        return tuple(bucket for bucket in wanted if bucket <= most)

    def without_progress(self) -> "StepTimer":
        """Return a timer that reports 0 as done at each run; it must report, so that the load can be cancelled."""
        return replace(self, progress=lambda _done, total: self.progress(0, total))

    def times(self, buckets: Buckets, is_batch_invariant: bool) -> StepTimes:
        """Measure the median seconds of a step of each bucket. If memory runs out for a bucket, this bucket
        and all larger buckets are left out."""
        self.runner.forget()
        for _ in self.runner.prefill(self.text[:PREFIX], buckets if is_batch_invariant else ()):
            pass
        if self.prefix > PREFIX:
            assert isinstance(self.runner, BlockRunner), "only a runner of blocks can lengthen its cache"
            lengthen(self.runner.cache, self.prefix)
        warm_up, done = self.runner.warm_up, count(1)
        most = len(buckets) * (warm_up + ROUNDS[1])

        def run(index: int) -> None:
            line = self.text[self.prefix : self.prefix + buckets[index]]
            logits = self.runner.forward(chain_block(line, self.prefix, tuple(range(len(line)))))
            # Sampling, as decoders do, also waits for the device, so that the device's work is timed.
            positions = range(self.prefix + 1, self.prefix + 1 + len(line))
            self.runner.sampler(GREEDY)(logits, 1 if len(line) == 1 else SUCCESSORS, positions)
            self.progress(next(done), most)

        times = time_in_turn(run, len(buckets), SECONDS, self.end, self.clock, warm_up)
        return StepTimes(buckets[: len(times)], tuple(times))

    def after_prefix(self, prefix: int) -> "StepTimer":
        """Return a timer of blocks after `prefix` tokens, or after fewer if the model's context is shorter."""
        text = measured_text(self.runner, prefix)
        prefix = max(len(text) - MEASURED_BUCKETS[-1], PREFIX)
        return replace(self.without_progress(), text=text, prefix=prefix, end=self.clock() + LONGEST / 4)

    def with_context(self, times: StepTimes, is_batch_invariant: bool) -> StepTimes:
        """Add the seconds that each token of context costs, if context and memory are large enough."""
        few, long = tuple(rows for rows in LONG_BUCKETS if rows in times.buckets), self.after_prefix(CONTEXT)
        more = long.prefix - self.prefix
        try:
            slow = long.times(few, is_batch_invariant) if more else StepTimes()
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise
            return times
        slopes = [(slow.seconds_for(rows) - times.seconds_for(rows)) / more for rows in slow.buckets]
        if not slopes:
            return times
        growth = (slopes[-1] - slopes[0]) / max(slow.buckets[-1] - slow.buckets[0], 1)
        per_token = (slopes[0] + growth * (rows - slow.buckets[0]) for rows in times.buckets)
        return replace(times, per_token=tuple(max(seconds, 0.0) for seconds in per_token))


@torch.inference_mode()
def lengthen(cache: BlockCache, length: int) -> None:
    """Repeat the cache's committed rows up to `length` rows, because a step's time does not depend on their
    content."""
    cache.reserve(length + MEASURED_BUCKETS[-1])
    times = -(-length // cache.length)
    cache.restore([states.repeat(1, 1, times, 1) for states in cache.committed()], length)


def time_in_turn(
    run: Callable[[int], None],
    jobs: int,
    seconds: float,
    end: float = float("inf"),
    clock: Callable[[], float] = perf_counter,
    warm_up: int = 1,
) -> list[float]:
    """Return the median seconds of the jobs 0, 1, 2, ..., which run in turn in as many rounds as fit into
    `seconds`.

    Runs at least ROUNDS[0] and at most ROUNDS[1] rounds; after `end` no round begins except the first. Jobs must be
    sorted by size. Each round runs them from the largest to the smallest, because a step of one row takes up to a
    third longer after a large block. A job first runs `warm_up` times untimed. If memory does not suffice for a
    job, this job and all larger jobs are left out."""
    possible = jobs
    for job in range(jobs):
        try:
            for _ in range(warm_up):
                run(job)
        except RuntimeError as error:
            if not job or not is_out_of_memory(error):
                raise
            possible = job
            break
    rounds: list[list[float]] = []
    begin = clock()
    fewest, most = ROUNDS
    while not rounds or (
        clock() < end and (len(rounds) < fewest or (len(rounds) < most and clock() - begin < seconds))
    ):
        marks = [clock()]
        for job in reversed(range(possible)):
            run(job)
            marks.append(clock())
        rounds.append([stop - start for start, stop in pairwise(marks)][::-1])
    return [median(times) for times in zip(*rounds, strict=True)]


def profile_steps(
    runner: MeasuredRunner, progress: ProgressListener, clock: Callable[[], float] = perf_counter
) -> StepProfile:
    """Measure a model's step times on this machine, and which buckets give bitwise identical results."""
    text, dtype, exact = measured_text(runner), dtype_name(runner.model.dtype), is_exact(runner.model)
    if isinstance(runner, SequentialRunner):  # chains round differently from single rows
        timer = StepTimer(runner, text, progress, clock, clock() + LONGEST / 2)
        free = timer.times(timer.affordable(), is_batch_invariant=False)
        runner.forget()
        differs = "steps with several tokens round differently from plain steps, so the text may differ"
        return StepProfile(free, note=_SAME_TEXT.format(dtype) if exact else f"{dtype}: {differs}")
    is_alone = is_row_independent(runner, text, PREFIX)
    parts = 1 if exact or is_alone or has_experts(runner.model) else 3
    timer = StepTimer(runner, text, _part(progress, 0, parts), clock, clock() + LONGEST / 2)
    try:
        buckets = timer.affordable(is_padded=not (exact or is_alone))
        free = timer.with_context(timer.times(buckets, False), is_batch_invariant=False)
        if is_alone:
            return StepProfile(free, free.at(ANY_ROWS), (ANY_ROWS,), _SAME_TEXT.format(dtype))
        if exact:
            return StepProfile(free, note=_SAME_TEXT.format(dtype))
        if parts == 1:
            return StepProfile(
                free, note=f"{dtype}: the model's experts process tokens in groups, so the text may differ"
            )
        timer = replace(timer, progress=_part(progress, 1, parts))
        return _batch_invariant_profile(runner, timer, free, _part(progress, 2, parts))
    finally:
        runner.forget()


def _part(progress: ProgressListener, number: int, parts: int) -> ProgressListener:
    """Return a listener that reports part `number` (from 0) of several equal parts as progress of the whole."""
    return lambda done, total: progress(number * total + done, parts * total)


def _batch_invariant_profile(
    runner: BlockRunner, timer: StepTimer, free: StepTimes, comparing: ProgressListener
) -> StepProfile:
    """Measure times with batch-invariant attention, and which buckets then give bitwise identical results."""
    if note := _refusal_of_same_text(runner, timer, free.buckets):
        return StepProfile(free, note=note)
    batch_invariant = timer.times(free.buckets, is_batch_invariant=True)
    batch_invariant = timer.with_context(batch_invariant, is_batch_invariant=True)

    def is_late() -> bool:
        return timer.clock() > timer.end + LONGEST / 2

    layers = layers_with_rows(runner, timer.text[: max(batch_invariant.buckets)])
    order = tuple(bucket for bucket in USEFUL_FIRST if bucket in batch_invariant.buckets)

    def read(bucket: int) -> list[Tensor]:
        comparing(order.index(bucket), len(order))
        if is_late() and bucket not in order[:ALWAYS_READ]:
            return []
        readings = read_text(runner, timer.text, PREFIX, bucket)
        return readings and [*readings, *read_layers(layers, bucket)]

    bucket_sets = group_by_bits(order, read)
    note = describe_buckets(dtype_name(runner.model.dtype), bucket_sets)
    return StepProfile(free, batch_invariant, bucket_sets, note, not is_late())


def _refusal_of_same_text(runner: BlockRunner, timer: StepTimer, buckets: Buckets) -> str:
    """Return why batch-invariant attention is not used: it does not exist on this device, or it is too slow after a
    long prefix; "" if it is used."""
    limit, dtype = runner.attention.same_text_limit, dtype_name(runner.model.dtype)
    if limit == inf:
        return ""
    if not limit:
        return f"{dtype}: the text may differ between lookahead on and off on this device"
    long = timer.after_prefix(LONG_PREFIX)
    few = tuple(bucket for bucket in LONG_BUCKETS if bucket in buckets)
    free, invariant = (long.times(few, is_batch_invariant=which) for which in (False, True))
    ratio = max(slow / fast for fast, slow in zip(free.seconds, invariant.seconds, strict=False))
    if ratio < limit:
        return ""
    return (
        f"{dtype}: the text may differ between lookahead on and off. Without Triton attention, "
        f"preventing this would make a step take {ratio:.1f} times as long after {long.prefix:,} tokens"
    )


def describe_buckets(dtype: str, bucket_sets: Sequence[Buckets]) -> str:
    """Describe to the user which buckets give bitwise identical results."""
    if not bucket_sets:
        return f"{dtype}: results depend on the number of rows in a step, so the text may differ"
    each = (", ".join(str(bucket) for bucket in buckets) for buckets in bucket_sets)
    return f"{dtype}: the text is identical among steps of " + ", and among steps of ".join(each) + " rows"


def trial_text(reader: SequenceReader) -> list[int]:
    """Make the random tokens that a draft model reads while it is timed."""
    return random_tokens(reader.vocabulary, min(BEFORE + LONG, reader.context))


def question_seconds(reader: SequenceReader, warm_up: int = 1) -> tuple[float, float]:
    """Measure the seconds of a draft model's pass over one token, and of each further token in a pass."""
    text = trial_text(reader)
    before = min(BEFORE, len(text) - SHORT)
    reader.read(text[:before], 0)
    sizes = [SHORT, len(text) - before]

    def run(index: int) -> None:
        logits = reader.read(text[: before + sizes[index]], before)
        logits.argmax(dim=-1).tolist()  # waits for the device

    short, long = time_in_turn(run, len(sizes), QUESTION_SECONDS, warm_up=warm_up)
    reader.forget()
    return short, max(long - short, 0.0) / max(sizes[1] - sizes[0], 1)
