"""Times blocks on a loaded model, through the path that decoding takes.

One block of each bucket, never committed, round after round (C B A, C B A); the median of the rounds. Two buckets
are timed behind a longer context as well: each row attends to each of its tokens. A slow model is timed at fewer
buckets; on a busy machine the rounds end early: nobody waits long for a chat to begin.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import count, pairwise
from statistics import median
from time import perf_counter

import numpy as np
import torch

from app.engine.block.block import chain_block
from app.engine.block.entries import SUCCESSORS
from app.engine.block.step_profile import Buckets, StepTimes
from app.engine.lookahead.drafter import GREEDY
from app.engine.machine.memory import is_out_of_memory
from app.engine.runner.kv_cache import BlockCache
from app.engine.runner.runner import BlockRunner
from app.engine.runner.sequential_runner import SequentialRunner

MEASURED_BUCKETS: Buckets = (1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128)
FEW_BUCKETS: Buckets = (1, 2, 4, 8, 16, 32, 64)
SLOW, SLOW_ON_CPU = 0.1, 0.01
"""Seconds of a step of one row from which on few buckets must do. On a CPU wide blocks take many times as long."""
PREFIX = 24
"""Tokens before every measured block."""
CONTEXT = 1024
"""Tokens before the blocks that tell what context costs."""
LONG_BUCKETS: Buckets = (1, 32)
ROUNDS = (2, 9)
SECONDS = 0.3
"""About how long each mode is timed, within these bounds of rounds."""
LONGEST = 8.0
"""Seconds after which nothing more is begun, half of them for the times."""

MeasuredRunner = BlockRunner | SequentialRunner
ProgressListener = Callable[[int, int], None]
"""Called with (done, total); an exception that it raises ends the probe."""


def measured_text(runner: MeasuredRunner, prefix: int = PREFIX) -> list[int]:
    """Random tokens: a varied text, whatever the model. As long as the rotary table does not change."""
    return random_tokens(runner.vocabulary, min(prefix + MEASURED_BUCKETS[-1], runner.horizon(0)))


def random_tokens(vocabulary: int, length: int) -> list[int]:
    """The same ones each time."""
    return [int(token) for token in np.random.default_rng(0).integers(0, vocabulary, length)]


@dataclass(frozen=True, slots=True)
class StepTimer:
    """Times blocks behind the text's first `prefix` tokens, until `end`."""

    runner: MeasuredRunner
    text: Sequence[int]
    progress: ProgressListener
    clock: Callable[[], float]
    end: float
    prefix: int = PREFIX

    def affordable(self, is_padded: bool = True) -> Buckets:
        """The buckets that are measured: fewer where a step takes long, none that the text is too short for."""
        on_cpu = self.runner.model.device.type == "cpu"
        is_free_on_cpu = on_cpu and not is_padded and not self.runner.buckets
        is_few = is_free_on_cpu or self._one_row() > (SLOW_ON_CPU if on_cpu else SLOW)
        wanted = FEW_BUCKETS if is_few else self.runner.buckets or MEASURED_BUCKETS
        most = min(len(self.text) - PREFIX, self.runner.max_rows)
        return tuple(bucket for bucket in wanted if bucket <= most)

    def _one_row(self) -> float:
        """Seconds of a step of one row."""
        return self.without_progress().times((1,), is_batch_invariant=False).seconds_for(1)

    def without_progress(self) -> "StepTimer":
        """The same timer, which reports that this part begins, so that it can be ended, and no more."""
        return replace(self, progress=lambda _done, total: self.progress(0, total))

    def times(self, buckets: Buckets, is_batch_invariant: bool) -> StepTimes:
        """What steps of these buckets cost."""
        self.runner.forget()
        for _ in self.runner.prefill(self.text[:PREFIX], buckets if is_batch_invariant else ()):
            pass
        if self.prefix > PREFIX:
            assert isinstance(self.runner, BlockRunner), "a state has no length"
            lengthen(self.runner.cache, self.prefix)
        warm_up, done = self.runner.warm_up, count(1)
        most = len(buckets) * (warm_up + ROUNDS[1])

        def run(place: int) -> None:
            self._step(buckets[place])
            self.progress(next(done), most)

        times = time_in_turn(run, len(buckets), SECONDS, self.end, self.clock, warm_up)
        return StepTimes(buckets[: len(times)], tuple(times))

    def behind(self, prefix: int) -> "StepTimer":
        """Times blocks behind so many tokens, or as many as the model's context holds."""
        text = measured_text(self.runner, prefix)
        prefix = max(len(text) - MEASURED_BUCKETS[-1], PREFIX)
        return replace(self.without_progress(), text=text, prefix=prefix, end=self.clock() + LONGEST / 4)

    def with_context(self, times: StepTimes, is_batch_invariant: bool) -> StepTimes:
        """The times with what each token of context adds, where the context and memory let it be measured."""
        few, long = tuple(rows for rows in LONG_BUCKETS if rows in times.buckets), self.behind(CONTEXT)
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

    def _step(self, bucket: int) -> None:
        line = self.text[self.prefix : self.prefix + bucket]
        logits = self.runner.forward(chain_block(line, self.prefix, tuple(range(bucket))))
        # As a decoder does, and a device is waited for.
        positions = range(self.prefix + 1, self.prefix + 1 + bucket)
        self.runner.sampler(GREEDY)(logits, 1 if bucket == 1 else SUCCESSORS, positions)


@torch.inference_mode()
def lengthen(cache: BlockCache, length: int) -> None:
    """Commit what the cache holds again and again: what a step costs behind it depends on no text."""
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
    """Median seconds of the jobs 0, 1, 2, ... in turn, in as many rounds as fit into `seconds` or are needed.

    Each round ends with job 0, the smallest: behind a wide block a step of one row takes up to a third longer. A
    job first runs `warm_up` times untimed; those beyond one that memory is too small for are left out. After `end`
    there is but one round more."""
    possible = _possible(run, jobs, warm_up)
    rounds: list[list[float]] = []
    begin = clock()
    while not rounds or (clock() < end and _is_needed(len(rounds), clock() - begin < seconds)):
        marks = [clock()]
        for place in reversed(range(possible)):
            run(place)
            marks.append(clock())
        rounds.append([stop - start for start, stop in pairwise(marks)][::-1])
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
