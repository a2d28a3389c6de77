"""Steps on as many threads as pay."""

from collections.abc import Iterator

import pytest
import torch
from transformers import PreTrainedModel

from app.engine.attention.backend_choice import SDPA
from app.engine.block.block import chain_block
from app.engine.graphs.graph_trial import choose_steps
from app.engine.measuring.cpu_threads import MARGIN, SHARE, ThreadChoice, ThreadedSteps
from app.engine.runner.kv_cache import BlockCache
from app.engine.runner.model_config import rotary_of
from app.engine.runner.runner import EagerSteps
from tests.engine.architectures import LLAMA
from tests.engine.replies import load

QUIET, BUSY = {2: 0.6, 1: 1.0}, {2: 3.0, 1: 1.0}
"""Seconds of a step by its threads."""


class CoresInUse:
    """A clock that goes on by what a step takes on torch's number of threads."""

    def __init__(self, seconds: dict[int, float]) -> None:
        self.seconds = seconds
        self.runs: list[int] = []
        self._now = 0.0
        self._is_running = False

    def __call__(self) -> float:
        self._is_running = not self._is_running
        if not self._is_running:
            self.runs.append(torch.get_num_threads())
            self._now += self.seconds[self.runs[-1]]
        return self._now


@pytest.fixture
def _two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def model() -> PreTrainedModel:
    """A tiny one, whose attention is ours."""
    made = LLAMA.make()
    load(made)
    return made


@pytest.fixture
def _instant(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps that compute nothing: thousands of them only pass the clock."""
    monkeypatch.setattr(EagerSteps, "forward", lambda *_: torch.empty(0))


def run(steps: ThreadedSteps, count: int) -> None:
    cache = BlockCache()
    for _ in range(count):
        steps.forward(cache, chain_block((3, 1, 4), 0, wanted=(2,)))


@pytest.mark.usefixtures("_two_threads", "_instant")
def test_all_threads_run_while_they_are_faster_and_trials_take_little_time(model: PreTrainedModel) -> None:
    clock = CoresInUse(QUIET)
    run(ThreadedSteps(model, SDPA, ThreadChoice(2), clock), 1000)
    trials = clock.runs.count(1)
    assert clock.runs.count(2) == 1000
    assert 0 < trials * QUIET[1] <= 1.1 * SHARE * 1000 * QUIET[2] + 2 * QUIET[1]


@pytest.mark.usefixtures("_two_threads", "_instant")
def test_fewer_threads_run_while_another_program_has_a_core(model: PreTrainedModel) -> None:
    clock = CoresInUse(QUIET)
    steps = ThreadedSteps(model, SDPA, ThreadChoice(2), clock)
    run(steps, 200)
    clock.seconds, clock.runs = BUSY, []
    run(steps, 1000)
    assert clock.runs.count(2) < 60
    assert clock.runs[-2:] == [1, 1]
    clock.seconds, clock.runs = QUIET, []
    run(steps, 1000)
    assert clock.runs[-2:] == [2, 2]


@pytest.mark.usefixtures("_two_threads")
def test_torch_keeps_its_threads_for_all_else(model: PreTrainedModel) -> None:
    clock = CoresInUse(BUSY)
    run(ThreadedSteps(model, SDPA, ThreadChoice(2), clock), 10)
    assert 1 in clock.runs
    assert torch.get_num_threads() == 2


@pytest.mark.usefixtures("_two_threads")
def test_a_trial_changes_no_logits(model: PreTrainedModel) -> None:
    block = chain_block((3, 1, 4), 0, wanted=(0, 1, 2))
    expected = EagerSteps(model, SDPA).forward(BlockCache(), block)
    cache, steps = BlockCache(), ThreadedSteps(model, SDPA, ThreadChoice(2), CoresInUse(BUSY))
    for _ in range(5):
        torch.testing.assert_close(steps.forward(cache, block), expected)
    steps.commit(cache, (0, 1))
    assert cache.length == 2


def test_one_trial_that_is_won_is_not_enough() -> None:
    choice = ThreadChoice(2)
    choice.compare(1.0, 0.5)
    assert choice.is_trial_due
    choice.compare(1.0, MARGIN)
    assert choice.count == 2
    assert not choice.is_trial_due
    choice.compare(1.0, 0.5)
    choice.compare(1.0, 0.5)
    assert choice.count == 1


def test_numbers_near_the_best_one_are_tried_in_turn() -> None:
    choice, tried = ThreadChoice(8), []
    for _ in range(3):
        tried.append(choice.other)
        choice.compare(1.0, 2.0)
    assert tried == [7, 4, 7]
    choice.compare(1.0, 0.5)
    choice.compare(1.0, 0.5)
    assert (choice.count, choice.other) == (4, 8)


@pytest.mark.usefixtures("_two_threads")
@pytest.mark.parametrize(("dtype", "chooses"), ((torch.float32, True), (torch.bfloat16, False)))
def test_only_where_the_text_does_not_depend_on_them(dtype: torch.dtype, chooses: bool) -> None:
    model = LLAMA.make().to(dtype)
    load(model)
    steps = choose_steps(model, SDPA, rotary_of(model.config, 64), 64)
    assert isinstance(steps, ThreadedSteps) == chooses
    torch.set_num_threads(1)
    assert not isinstance(choose_steps(model, SDPA, rotary_of(model.config, 64), 64), ThreadedSteps)
