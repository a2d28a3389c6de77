"""A step's threads: fewer while other programs keep the cores busy, and never where bits would depend on it."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from app.engine.attention.selector import SDPA
from app.engine.block import chain_block
from app.engine.kv_cache import BlockCache
from app.engine.steps import EagerSteps
from app.engine.threads import FIRST, LONGEST, SHARE, ThreadCount, ThreadedSteps
from tests.engine.architectures import LLAMA
from tests.engine.replies import load

QUIET = {1: 0.03, 2: 0.02, 4: 0.012}
"""Seconds of a step by its threads on a machine of one's own."""
BUSY = {1: 0.06, 2: 0.7, 4: 2.0}
"""And where other programs keep the cores busy."""


class AlwaysTrying(ThreadCount):
    """Every step is a trial."""

    def trial(self) -> int | None:
        return None if self._is_settled else 1


@pytest.fixture
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def run(threads: ThreadCount, seconds: dict[int, float], steps: int) -> tuple[float, float]:
    """Take steps. Returns the seconds of all, and those of the trials among them."""
    total = trials = 0.0
    for _ in range(steps):
        other = threads.trial()
        took = seconds[threads.count]
        if other is None:
            threads.observe(took)
        else:
            threads.observe_trial(took, seconds[other])
            trials += seconds[other]
            took += seconds[other]
        total += took
    return total, trials


def test_on_a_quiet_machine_all_threads_stay() -> None:
    threads = ThreadCount(2)
    total, trials = run(threads, QUIET, 5000)
    assert threads.count == 2
    assert trials < total / 200


def test_on_a_busy_machine_one_thread_is_enough_and_trials_cost_little() -> None:
    threads = ThreadCount(2)
    run(threads, QUIET, 2000)
    before, _ = run(threads, BUSY, int((LONGEST + 2) / BUSY[2]))
    assert threads.count == 1
    total, trials = run(threads, BUSY, 5000)
    assert threads.count == 1
    assert trials < total / (SHARE - 10)
    assert before < 2 * LONGEST


def test_when_the_cores_are_free_again_all_threads_come_back() -> None:
    threads = ThreadCount(4)
    run(threads, BUSY, 2000)
    assert threads.count == 1
    run(threads, QUIET, 20_000)
    assert threads.count == 4


def test_one_lucky_trial_decides_nothing() -> None:
    threads = ThreadCount(2)
    threads.observe(FIRST)
    assert threads.trial() == 1
    threads.observe_trial(1.0, 0.1)
    assert (threads.count, threads.trial()) == (2, 1)
    threads.observe_trial(0.02, 0.02)
    assert (threads.count, threads.trial()) == (2, None)


def test_with_one_thread_there_is_nothing_to_try() -> None:
    threads = ThreadCount(1)
    threads.observe(1000)
    assert (threads.count, threads.trial()) == (1, None)
    with pytest.raises(ValueError, match="there must be a thread, got 0"):
        ThreadCount(0)


@pytest.mark.usefixtures("two_threads")
def test_trials_change_no_logits_and_leave_torchs_threads_as_they_were() -> None:
    model = LLAMA.make()
    load(model)
    steps, plain = ThreadedSteps(model, SDPA), EagerSteps(model, SDPA)
    steps.threads = AlwaysTrying(2)
    caches = BlockCache(), BlockCache()
    for begin in range(0, 30, 3):
        block = chain_block(range(begin + 1, begin + 4), begin, wanted=(0, 1, 2))
        ours, theirs = steps.forward(caches[0], block), plain.forward(caches[1], block)
        assert torch.equal(ours, theirs)
        steps.commit(caches[0], [0, 1, 2])
        plain.commit(caches[1], [0, 1, 2])
    assert torch.get_num_threads() == 2


@pytest.mark.usefixtures("two_threads")
def test_where_bits_depend_on_the_threads_they_never_change() -> None:
    model = LLAMA.make()
    load(model)

    def spoil(_module: Any, _inputs: Any, output: Tensor) -> Tensor:
        return output + torch.get_num_threads()

    model.lm_head.register_forward_hook(spoil)
    steps = ThreadedSteps(model, SDPA)
    steps.threads = AlwaysTrying(2)
    steps.forward(BlockCache(), chain_block((1, 2), 0, wanted=(1,)))
    steps.threads.observe(1000)
    assert (steps.threads.count, steps.threads.trial()) == (2, None)
