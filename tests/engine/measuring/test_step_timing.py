"""A step is timed in turns, with as many widths and rounds as a model and its memory allow."""

from collections.abc import Callable
from itertools import chain, count

import pytest
import torch
from torch import Tensor
from transformers import LlamaForCausalLM

from app.engine.attention import BlockView, LayerCache, Scoring, sdpa
from app.engine.attention.backend_choice import GPU_LIMIT, SDPA, Attention
from app.engine.block.step_profile import choose_buckets
from app.engine.measuring import step_timing
from app.engine.measuring.step_timing import (
    FEW_BUCKETS,
    MEASURED_BUCKETS,
    PREFIX,
    describe_buckets,
    profile_steps,
    time_in_turn,
)
from app.engine.runner.model_config import Rotary
from app.engine.runner.runner import BlockRunner
from tests.engine.architectures import BRANCHING
from tests.engine.replies import load, numbers
from tests.engine.tiny import tiny_config


class Stopwatch:
    """Time passes only in the jobs."""

    def __init__(self) -> None:
        self.now = 0.0
        self.ran: list[int] = []

    def __call__(self) -> float:
        return self.now

    def job(self, seconds: Callable[[int], float]) -> Callable[[int], None]:
        def run(place: int) -> None:
            self.ran.append(place)
            self.now += seconds(place)

        return run


@pytest.fixture
def _usual_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step_timing, "ROUNDS", (2, 9))


@pytest.mark.usefixtures("_usual_rounds")
def test_jobs_take_turns_the_smallest_last_and_the_first_round_only_warms_up() -> None:
    watch = Stopwatch()
    times = time_in_turn(
        watch.job(lambda place: 10.0 if len(watch.ran) <= 3 else place + 1), 3, 13.0, clock=watch
    )
    assert watch.ran == [0, 1, 2] + [2, 1, 0] * 3
    assert times == [1.0, 2.0, 3.0]


@pytest.mark.usefixtures("_usual_rounds")
def test_a_job_that_takes_long_is_repeated_all_the_same_and_a_short_one_not_for_ever() -> None:
    slow, quick = Stopwatch(), Stopwatch()
    time_in_turn(slow.job(lambda _place: 100.0), 1, 1.0, clock=slow)
    time_in_turn(quick.job(lambda _place: 0.001), 1, 1.0, clock=quick)
    assert (len(slow.ran), len(quick.ran)) == (1 + 2, 1 + 9)


def test_after_the_end_there_is_but_one_round_more() -> None:
    watch = Stopwatch()
    assert time_in_turn(watch.job(lambda _place: 5.0), 2, 100.0, end=7.0, clock=watch) == [5.0, 5.0]
    assert watch.ran == [0, 1, 1, 0]


def test_jobs_that_memory_is_too_small_for_are_left_out() -> None:
    watch = Stopwatch()
    tick = watch.job(lambda _place: 1.0)

    def run(place: int) -> None:
        if place == 2:
            raise MemoryError if torch.cuda.is_available() else RuntimeError("can't allocate memory")
        tick(place)

    assert time_in_turn(run, 4, 1.0, clock=watch) == [1.0, 1.0]


@pytest.mark.parametrize(("place", "words"), [(0, "can't allocate memory"), (1, "a bug")])
def test_other_errors_and_a_model_that_cannot_run_at_all_are_told(place: int, words: str) -> None:
    def run(at: int) -> None:
        if at == place:
            raise RuntimeError(words)

    with pytest.raises(RuntimeError, match=words):
        time_in_turn(run, 2, 1.0)


def tiny(dtype: torch.dtype, context: int = 256) -> BlockRunner:
    torch.manual_seed(0)
    model = LlamaForCausalLM(tiny_config(128, context)).requires_grad_(False).train(False).to(dtype)
    runner = load(model).runner
    assert isinstance(runner, BlockRunner)
    return runner


def unwatched(_done: int, _total: int) -> None:
    """Nobody watches."""


def ticking(seconds: float) -> Callable[[], float]:
    """Make a clock on which this time passes from one look to the next, whatever the machine does."""
    ticks = count(0, seconds)
    return lambda: next(ticks)


QUICK = 0.005
"""Seconds of a step for which no model counts as slow."""


def test_float32_needs_no_classes_and_says_so() -> None:
    profile = profile_steps(tiny(torch.float32), unwatched, ticking(QUICK))
    assert profile.free.buckets == FEW_BUCKETS
    assert (profile.bucket_sets, bool(profile.batch_invariant)) == ((), False)
    assert profile.note == "float32: the same text with lookahead on and off"


def test_half_precision_gets_classes_of_measured_widths_and_a_runner_that_knows_no_prompt() -> None:
    runner = tiny(torch.bfloat16)
    profile = profile_steps(runner, unwatched, ticking(QUICK))
    assert profile.is_whole
    assert profile.batch_invariant.buckets == MEASURED_BUCKETS
    assert profile.bucket_sets
    assert profile.note.startswith("bfloat16: the text is identical among steps of ")
    assert runner.cache.committed()[0].shape[2] == 0
    list(runner.prefill(numbers(5)))
    assert (runner.reused, runner.same_text_buckets) == (0, ())


def with_costly_attention(watch: Stopwatch, times: float, limit: float) -> BlockRunner:
    """Batch-invariant attention takes so many times as long, once much was read."""

    def attend(query: Tensor, cache: LayerCache, view: BlockView, scoring: Scoring) -> Tensor:
        watch.now += 0.01
        return sdpa.attend(query, cache, view, scoring)

    def batch_invariant(query: Tensor, cache: LayerCache, view: BlockView, scoring: Scoring) -> Tensor:
        watch.now += 0.01 * (times if view.prefix_length > 1000 else 1)
        return sdpa.attend_batch_invariant(query, cache, view, scoring)

    eager = tiny(torch.bfloat16, 2200)
    attention = Attention("sdpa", attend, batch_invariant, same_text_limit=limit)
    return BlockRunner(eager.model, 2200, Rotary("fixed", 2200), attention)


def test_a_model_of_slow_steps_is_measured_at_few_widths_on_a_cpu() -> None:
    watch = Stopwatch()
    profile = profile_steps(with_costly_attention(watch, 1.0, SDPA.same_text_limit), unwatched, watch)
    assert profile.free.buckets == profile.batch_invariant.buckets == FEW_BUCKETS
    assert profile.is_whole


@pytest.mark.parametrize(("times", "is_on"), [(1.05, True), (4.0, False)])
def test_a_card_without_our_kernels_keeps_the_same_text_where_it_costs_little_in_a_long_chat(
    times: float, is_on: bool
) -> None:
    watch = Stopwatch()
    profile = profile_steps(with_costly_attention(watch, times, GPU_LIMIT), unwatched, watch)
    assert bool(profile.bucket_sets) == is_on
    assert bool(choose_buckets(profile)) == is_on
    assert ("take 4.0 times as long after 2,048 tokens" in profile.note) != is_on


def test_a_cpu_keeps_the_same_text_whatever_it_costs() -> None:
    watch = Stopwatch()
    assert profile_steps(
        with_costly_attention(watch, 4.0, SDPA.same_text_limit), unwatched, watch
    ).bucket_sets


def test_each_token_of_context_is_timed_for_one_row_and_for_many() -> None:
    watch = Stopwatch()

    def attend(query: Tensor, cache: LayerCache, view: BlockView, scoring: Scoring) -> Tensor:
        watch.now += 0.01 + 1e-6 * view.prefix_length * query.shape[2]
        return sdpa.attend(query, cache, view, scoring)

    eager = tiny(torch.float32, 1400)
    runner = BlockRunner(eager.model, 1400, Rotary("fixed", 1400), Attention("sdpa", attend, attend))
    times = profile_steps(runner, unwatched, watch).free
    layers = eager.model.config.num_hidden_layers
    assert times.per_token == pytest.approx([1e-6 * layers * rows for rows in times.buckets])
    assert runner.length == runner.cache.length == 0


def test_a_context_too_short_to_tell_costs_nothing() -> None:
    assert profile_steps(tiny(torch.float32, PREFIX + 128), unwatched, ticking(QUICK)).free.per_token == ()


def test_experts_are_sent_away_with_a_reason() -> None:
    mixtral = next(architecture for architecture in BRANCHING if architecture.name == "mixtral")
    runner = load(mixtral.make().bfloat16()).runner
    assert isinstance(runner, BlockRunner)
    profile = profile_steps(runner, unwatched, ticking(QUICK))
    assert profile.free and not profile.bucket_sets
    assert profile.note == "bfloat16: the model's experts process tokens in groups, so the text may differ"


def test_a_short_context_is_measured_as_far_as_it_goes() -> None:
    watch, context = Stopwatch(), PREFIX + 20

    def attend(query: Tensor, cache: LayerCache, view: BlockView, scoring: Scoring) -> Tensor:
        watch.now += 1e-5  # slow steps are measured at fewer buckets
        return sdpa.attend(query, cache, view, scoring)

    eager = tiny(torch.bfloat16, context)
    runner = BlockRunner(eager.model, context, Rotary("fixed", context), Attention("sdpa", attend, attend))
    assert profile_steps(runner, unwatched, watch).free.buckets == (1, 2, 4, 8, 12, 16)


def test_a_probe_that_is_stopped_leaves_such_a_runner_too() -> None:
    class Stopped(Exception):
        """The person closed the app."""

    def stop(done: int, _total: int) -> None:
        if done == 3:
            raise Stopped

    runner = tiny(torch.bfloat16)
    with pytest.raises(Stopped):
        profile_steps(runner, stop, ticking(QUICK))
    assert runner.cache.committed()[0].shape[2] == 0


def test_on_a_busy_machine_the_probe_ends_early_and_says_that_it_is_not_whole() -> None:
    profile = profile_steps(tiny(torch.bfloat16), unwatched, ticking(1.0))
    assert sorted(chain.from_iterable(profile.bucket_sets)) == [1, 32], (
        "a plain step is not padded to 32 rows"
    )
    assert not profile.is_whole


def test_what_was_found_is_said_in_words() -> None:
    assert (
        describe_buckets("bfloat16", ((16, 24, 32),))
        == "bfloat16: the text is identical among steps of 16, 24, 32 rows"
    )
    assert (
        describe_buckets("float16", ((1,), (8, 16)))
        == "float16: the text is identical among steps of 1, and among steps of 8, 16 rows"
    )
    assert (
        describe_buckets("bfloat16", ())
        == "bfloat16: results depend on the number of rows in a step, so the text may differ"
    )
