"""Measures a loaded model's step through the path that decoding takes: its seconds and its bits, by bucket.

Seconds: one block of each bucket, never committed, round after round (A B C, A B C); the median of the rounds.
Bits: `same_bits.py`, the most useful buckets first. A slow model is measured at fewer buckets; on a busy machine
the probe ends early: nobody waits long for a chat to begin.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import count, pairwise
from math import inf
from statistics import median
from time import perf_counter

import numpy as np
from torch import Tensor

from app.engine.block import chain_block
from app.engine.hardware import dtype_name
from app.engine.memory import is_out_of_memory
from app.engine.runner import BlockRunner
from app.engine.same_bits import (
    group_by_bits,
    has_experts,
    join_unread,
    layers_with_rows,
    read_layers,
    read_text,
    takes_rows_one_by_one,
)
from app.engine.sequential_runner import SequentialRunner
from app.engine.step_profile import Buckets, StepProfile, StepTimes
from app.engine.tolerance import rounds_activations

MEASURED_BUCKETS: Buckets = (1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128)
FEW_BUCKETS: Buckets = (1, 8, 16, 32, 64)
SLOW = 0.1
"""Seconds of a step of one row from which on few buckets must do."""
PREFIX = 24
"""Tokens before every measured block."""
LONG_PREFIX = 2048
"""Tokens before the blocks that tell what batch-invariant attention costs in a long chat."""
LONG_BUCKETS: Buckets = (1, 32)
ROUNDS = (2, 9)
SECONDS = 0.3
"""About how long each mode is timed, within these bounds of rounds."""
_SAME_TEXT = "{}: the same text with lookahead on and off"
LONGEST = 10.0
"""Seconds after which nothing more is begun, half of them for the times."""
USEFUL_FIRST: Buckets = (32, 1, 16, 64, 8, 4, 24, 48, 128, 12, 96, 2)
ALWAYS_READ = 2
"""So many of them are compared however late it is: plain steps of a slow model must not be padded to 32 rows."""

MeasuredRunner = BlockRunner | SequentialRunner
ProgressListener = Callable[[int, int], None]
"""Called with (done, total); an exception that it raises ends the probe."""


def probe(
    runner: BlockRunner, progress: ProgressListener, clock: Callable[[], float] = perf_counter
) -> StepProfile:
    """What a step of this model costs on this machine, and which buckets write the same bits.

    Not for models whose drafts are chains: see `probe_chains`."""
    text = _text(runner)
    dtype = dtype_name(runner.model.dtype)
    is_exact = runner.model.dtype.itemsize >= 4 and not rounds_activations(runner.model)
    parts = 1 if is_exact or has_experts(runner.model) else 3
    timer = _StepTimer(runner, text, _part(progress, 0, parts), clock, clock() + LONGEST / 2)
    try:
        free = timer.times(timer.affordable(), is_batch_invariant=False)
        if is_exact:
            return StepProfile(free, note=_SAME_TEXT.format(dtype))
        if parts == 1:
            return StepProfile(free, note=f"{dtype}: experts group a step's rows, so the text may differ")
        timer = replace(timer, progress=_part(progress, 1, parts))
        return _batch_invariant_profile(runner, timer, free, _part(progress, 2, parts))
    finally:
        runner.same_text_buckets = ()
        runner.forget()


def probe_chains(
    runner: SequentialRunner, progress: ProgressListener, clock: Callable[[], float] = perf_counter
) -> StepProfile:
    """What chains cost. Kernels for chunks round in other ways than those for one row."""
    dtype = dtype_name(runner.model.dtype)
    is_exact = runner.model.dtype.itemsize >= 4 and not rounds_activations(runner.model)
    timer = _StepTimer(runner, _text(runner), progress, clock, clock() + LONGEST / 2)
    free = timer.times(timer.affordable(), is_batch_invariant=False)
    runner.forget()
    note = (
        _SAME_TEXT if is_exact else "{}: chains round in other ways than single rows, so the text may differ"
    )
    return StepProfile(free, note=note.format(dtype))


def _part(progress: ProgressListener, number: int, parts: int) -> ProgressListener:
    """Reports one of several parts, from number 0, as progress of the whole."""
    return lambda done, total: progress(number * total + done, parts * total)


def describe_buckets(dtype: str, bucket_sets: Sequence[Buckets]) -> str:
    """What the bits came to, for a person to read."""
    if not bucket_sets:
        return f"{dtype}: no number of rows writes batch-invariant bits, so the text may differ"
    each = (", ".join(str(bucket) for bucket in buckets) for buckets in bucket_sets)
    return f"{dtype}: the same text by steps of " + "; or of ".join(each) + " rows"


def _batch_invariant_profile(
    runner: BlockRunner, timer: "_StepTimer", free: StepTimes, comparing: ProgressListener
) -> StepProfile:
    """Passes with batch-invariant attention: what they cost, and which buckets write the same bits."""
    if note := _refusal_of_same_text(runner, timer, free.buckets):
        return StepProfile(free, note=note)
    batch_invariant = timer.times(free.buckets, is_batch_invariant=True)

    def is_late() -> bool:
        return timer.clock() > timer.end + LONGEST / 2

    bucket_sets = _find_bucket_sets(runner, timer.text, batch_invariant.buckets, comparing, is_late)
    note = describe_buckets(dtype_name(runner.model.dtype), bucket_sets)
    return StepProfile(free, batch_invariant, bucket_sets, note, not is_late())


def _refusal_of_same_text(runner: BlockRunner, timer: "_StepTimer", buckets: Buckets) -> str:
    """Why batch-invariant attention is too slow here, timed behind a long prefix; "" where it is not."""
    limit = runner.attention.same_text_limit
    if limit == inf:
        return ""
    if not limit:
        return (
            f"{dtype_name(runner.model.dtype)}: the text may differ with lookahead on and off on this device"
        )
    text = _text(runner, LONG_PREFIX)
    prefix = max(len(text) - MEASURED_BUCKETS[-1], PREFIX)
    long = replace(timer.without_progress(), text=text, prefix=prefix, end=timer.clock() + LONGEST / 4)
    few = tuple(bucket for bucket in LONG_BUCKETS if bucket in buckets)
    free, invariant = (long.times(few, is_batch_invariant=which) for which in (False, True))
    ratio = max(slow / fast for fast, slow in zip(free.seconds, invariant.seconds, strict=False))
    if ratio < limit:
        return ""
    return (
        f"{dtype_name(runner.model.dtype)}: the text may differ with lookahead on and off, for without the triton "
        f"attention a step that prevents it takes {ratio:.1f} times as long behind {prefix:,} tokens"
    )


def _text(runner: MeasuredRunner, prefix: int = PREFIX) -> list[int]:
    """Random tokens: a varied text, whatever the model. As long as the rotary table does not change."""
    return random_tokens(runner.vocabulary, min(prefix + MEASURED_BUCKETS[-1], runner.horizon(0)))


def random_tokens(vocabulary: int, length: int) -> list[int]:
    """The same ones each time."""
    return [int(token) for token in np.random.default_rng(0).integers(0, vocabulary, length)]


def _find_bucket_sets(
    runner: BlockRunner,
    text: Sequence[int],
    buckets: Buckets,
    progress: ProgressListener,
    is_late: Callable[[], bool],
) -> tuple[Buckets, ...]:
    layers = layers_with_rows(runner, text[: max(buckets)])
    order = tuple(bucket for bucket in USEFUL_FIRST if bucket in buckets)
    unread: list[int] = []

    def read(bucket: int) -> list[Tensor]:
        progress(order.index(bucket), len(order))
        if is_late() and bucket not in order[:ALWAYS_READ]:
            unread.append(bucket)
            return []
        readings = read_text(runner, text, PREFIX, bucket)
        return readings and [*readings, *read_layers(layers, bucket)]

    found = group_by_bits(order, read)
    return join_unread(found, order[:ALWAYS_READ], unread) if takes_rows_one_by_one(runner) else found


@dataclass(frozen=True, slots=True)
class _StepTimer:
    """Times blocks behind the text's first `prefix` tokens, until `end`."""

    runner: MeasuredRunner
    text: Sequence[int]
    progress: ProgressListener
    clock: Callable[[], float]
    end: float
    prefix: int = PREFIX

    def affordable(self) -> Buckets:
        """The buckets that are measured: fewer where a step takes long, none that the text is too short for."""
        plain = self.without_progress().times((1,), is_batch_invariant=False).seconds_for(1)
        wanted = FEW_BUCKETS if plain > SLOW else self.runner.buckets or MEASURED_BUCKETS
        most = min(len(self.text) - PREFIX, self.runner.max_rows)
        return tuple(bucket for bucket in wanted if bucket <= most)

    def without_progress(self) -> "_StepTimer":
        """The same timer, which reports that this part begins, so that it can be ended, and no more."""
        return replace(self, progress=lambda _done, total: self.progress(0, total))

    def times(self, buckets: Buckets, is_batch_invariant: bool) -> StepTimes:
        """What steps of these buckets cost."""
        self.runner.forget()
        for _ in self.runner.prefill(self.text[: self.prefix]):
            pass

        warm_up, done = self.runner.warm_up, count(1)
        most = len(buckets) * (warm_up + ROUNDS[1])

        def run(place: int) -> None:
            self._step(buckets[place], is_batch_invariant)
            self.progress(next(done), most)

        times = time_in_turn(run, len(buckets), SECONDS, self.end, self.clock, warm_up)
        return StepTimes(buckets[: len(times)], tuple(times))

    def _step(self, bucket: int, is_batch_invariant: bool) -> None:
        self.runner.same_text_buckets = (bucket,) if is_batch_invariant else ()
        line = self.text[self.prefix : self.prefix + bucket]
        logits = self.runner.forward(chain_block(line, self.prefix, tuple(range(bucket))))
        logits.argmax(dim=-1).tolist()  # as a decoder does, and a device is waited for


def time_in_turn(
    run: Callable[[int], None],
    jobs: int,
    seconds: float,
    end: float = float("inf"),
    clock: Callable[[], float] = perf_counter,
    warm_up: int = 1,
) -> list[float]:
    """Median seconds of the jobs 0, 1, 2, ... in turn, in as many rounds as fit into `seconds` or are needed.

    A job first runs `warm_up` times untimed; those beyond one that memory is too small for are left out. After
    `end` there is but one round more."""
    possible = _possible(run, jobs, warm_up)
    rounds: list[list[float]] = []
    begin = clock()
    while not rounds or (clock() < end and _is_needed(len(rounds), clock() - begin < seconds)):
        marks = [clock()]
        for place in range(possible):
            run(place)
            marks.append(clock())
        rounds.append([stop - start for start, stop in pairwise(marks)])
    return [median(times) for times in zip(*rounds, strict=True)]


def _is_needed(rounds: int, has_time: bool) -> bool:
    fewest, most = ROUNDS
    return rounds < fewest or (rounds < most and has_time)


def _possible(run: Callable[[int], None], jobs: int, times: int) -> int:
    """Run each job so often; how many of them before memory ran out. The first must succeed."""
    for place in range(jobs):
        try:
            for _ in range(times):
                run(place)
        except RuntimeError as error:
            if place and is_out_of_memory(error):
                return place
            raise
    return jobs
