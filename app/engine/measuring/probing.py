"""Measures a loaded model's step through the path that decoding takes: its seconds and its bits, by bucket.

Seconds: `step_timing.py`. Bits: `same_bits.py`, the most useful buckets first.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import inf
from time import perf_counter

from torch import Tensor

from app.engine.block.step_profile import Buckets, StepProfile, StepTimes
from app.engine.machine.hardware import dtype_name
from app.engine.machine.tolerance import is_exact
from app.engine.measuring.same_bits import (
    group_by_bits,
    has_experts,
    layers_with_rows,
    read_layers,
    read_text,
    takes_rows_one_by_one,
)
from app.engine.measuring.step_timing import (
    LONG_BUCKETS,
    LONGEST,
    PREFIX,
    ProgressListener,
    StepTimer,
    measured_text,
)
from app.engine.runner.runner import BlockRunner
from app.engine.runner.sequential_runner import SequentialRunner

LONG_PREFIX = 2048
"""Tokens before the blocks that tell what batch-invariant attention costs in a long chat."""
_SAME_TEXT = "{}: the same text with lookahead on and off"
USEFUL_FIRST: Buckets = (32, 1, 16, 64, 8, 4, 24, 48, 128, 12, 96, 2)
ANY_ROWS: Buckets = (*range(1, 17), *range(18, 33, 2), *range(36, 65, 4), *range(72, 129, 8))
"""Buckets where no row meets another: next to no block is padded."""
ALWAYS_READ = 2
"""So many of them are compared however late it is: plain steps of a slow model must not be padded to 32 rows."""


def probe(
    runner: BlockRunner, progress: ProgressListener, clock: Callable[[], float] = perf_counter
) -> StepProfile:
    """What a step of this model costs on this machine, and which buckets write the same bits.

    Not for models whose drafts are chains: see `probe_chains`."""
    text = measured_text(runner)
    dtype = dtype_name(runner.model.dtype)
    exact = is_exact(runner.model)
    is_alone = takes_rows_one_by_one(runner.model, runner.attention)
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
            return StepProfile(free, note=f"{dtype}: experts group a step's rows, so the text may differ")
        timer = replace(timer, progress=_part(progress, 1, parts))
        return _batch_invariant_profile(runner, timer, free, _part(progress, 2, parts))
    finally:
        runner.forget()


def probe_chains(
    runner: SequentialRunner, progress: ProgressListener, clock: Callable[[], float] = perf_counter
) -> StepProfile:
    """What chains cost. Kernels for chunks round in other ways than those for one row."""
    dtype = dtype_name(runner.model.dtype)
    timer = StepTimer(runner, measured_text(runner), progress, clock, clock() + LONGEST / 2)
    free = timer.times(timer.affordable(), is_batch_invariant=False)
    runner.forget()
    note = (
        _SAME_TEXT
        if is_exact(runner.model)
        else "{}: chains round in other ways than single rows, so the text may differ"
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
    runner: BlockRunner, timer: StepTimer, free: StepTimes, comparing: ProgressListener
) -> StepProfile:
    """Passes with batch-invariant attention: what they cost, and which buckets write the same bits."""
    if note := _refusal_of_same_text(runner, timer, free.buckets):
        return StepProfile(free, note=note)
    batch_invariant = timer.times(free.buckets, is_batch_invariant=True)
    batch_invariant = timer.with_context(batch_invariant, is_batch_invariant=True)

    def is_late() -> bool:
        return timer.clock() > timer.end + LONGEST / 2

    bucket_sets = _find_bucket_sets(runner, timer.text, batch_invariant.buckets, comparing, is_late)
    note = describe_buckets(dtype_name(runner.model.dtype), bucket_sets)
    return StepProfile(free, batch_invariant, bucket_sets, note, not is_late())


def _refusal_of_same_text(runner: BlockRunner, timer: StepTimer, buckets: Buckets) -> str:
    """Why batch-invariant attention is too slow here, timed behind a long prefix; "" where it is not."""
    limit = runner.attention.same_text_limit
    if limit == inf:
        return ""
    if not limit:
        return (
            f"{dtype_name(runner.model.dtype)}: the text may differ with lookahead on and off on this device"
        )
    long = timer.behind(LONG_PREFIX)
    few = tuple(bucket for bucket in LONG_BUCKETS if bucket in buckets)
    free, invariant = (long.times(few, is_batch_invariant=which) for which in (False, True))
    ratio = max(slow / fast for fast, slow in zip(free.seconds, invariant.seconds, strict=False))
    if ratio < limit:
        return ""
    return (
        f"{dtype_name(runner.model.dtype)}: the text may differ with lookahead on and off, for without the triton "
        f"attention a step that prevents it takes {ratio:.1f} times as long behind {long.prefix:,} tokens"
    )


def _find_bucket_sets(
    runner: BlockRunner,
    text: Sequence[int],
    buckets: Buckets,
    progress: ProgressListener,
    is_late: Callable[[], bool],
) -> tuple[Buckets, ...]:
    layers = layers_with_rows(runner, text[: max(buckets)])
    order = tuple(bucket for bucket in USEFUL_FIRST if bucket in buckets)

    def read(bucket: int) -> list[Tensor]:
        progress(order.index(bucket), len(order))
        if is_late() and bucket not in order[:ALWAYS_READ]:
            return []
        readings = read_text(runner, text, PREFIX, bucket)
        return readings and [*readings, *read_layers(layers, bucket)]

    return group_by_bits(order, read)
