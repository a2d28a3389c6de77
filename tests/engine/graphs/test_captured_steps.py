"""Recorded steps write what eager ones write, whatever happens to the cache; a failed recording costs nothing.

Here a tape stands in for CUDA graphs; `test_graph_capturer.py` has the same on a card."""

import gc
import weakref
from collections.abc import Callable
from itertools import count, islice
from types import SimpleNamespace
from typing import cast

import pytest
import torch
from torch import Tensor
from transformers import PreTrainedModel

from app.engine.attention import BlockView, LayerCache, Scoring
from app.engine.attention.backend_choice import SDPA, Attention
from app.engine.attention.paths import NEWEST, row_paths
from app.engine.block.block import Block, chain_block, padded
from app.engine.block.step_profile import Buckets, StepProfile, StepTimes
from app.engine.decoders import make_decoder
from app.engine.decoders.lookahead_decoder import ReplyContext
from app.engine.decoders.plain import plain
from app.engine.graphs.captured_steps import BUCKETS, EAGER_STEPS, GraphSteps, StepInputs
from app.engine.graphs.graph_capturer import own_workspaces, run_and_end
from app.engine.graphs.graph_trial import choose_steps, tried_graphs
from app.engine.machine.kernel_timing import Run
from app.engine.measuring.step_timing import profile_steps
from app.engine.runner.kv_cache import AHEAD, CHUNK, BlockCache, empty_rows
from app.engine.runner.model_config import Rotary
from app.engine.runner.runner import ROOMY, BlockRunner, EagerSteps, run_block
from app.engine.sampling.sampling import Draws
from app.values.messages import Decoding, Sampling
from tests.engine.architectures import LLAMA, Architecture, architecture
from tests.engine.attention.backends import interprets_triton, triton_backend
from tests.engine.oracle import Oracle, branching
from tests.engine.path_attention import BY_PATHS
from tests.engine.replies import Zoo, load, numbers, says_plainly, stream, with_pool, write
from tests.engine.simulated_graphs import SimulatedCapturer, SimulatedGraph, opaque, recorded
from tests.tiers import named, some

NARROW = Decoding("lookahead", window=2, ngram=3, guesses=1)
"""Blocks of at most 8 rows."""
WIDE = Decoding("lookahead", window=4, ngram=3, guesses=4)
"""Blocks of up to 16 rows; drafts may fill more than 8 from the first step on."""
FIXED = Rotary("fixed", 1024)
NO_DRAWS = Draws(Sampling(), ()).inputs(100)


@pytest.fixture
def eager(zoo: Zoo) -> BlockRunner:
    return block_runner(zoo, LLAMA)


def block_runner(zoo: Zoo, architecture: Architecture) -> BlockRunner:
    runner = zoo.runner(architecture)
    assert isinstance(runner, BlockRunner)
    return runner


@pytest.mark.parametrize("buckets", [(), (8, 16)], ids=str)
def test_a_row_that_is_read_twice_finds_room_for_its_logits(
    eager: BlockRunner, buckets: tuple[int, ...]
) -> None:
    """As row 0 is where a window of 2-grams is open: 8 rows, and 9 wanted."""
    capturer = SimulatedCapturer()
    runner, steps = recorded(eager, capturer)
    list(eager.prefill(numbers(5)))
    list(runner.prefill(numbers(5), buckets))
    twice = chain_block(numbers(8), 5, (*range(8), 0))
    for _ in range(EAGER_STEPS + 2):
        said = runner.forward(twice)
        assert torch.equal(said[0], said[8])
        torch.testing.assert_close(said, eager.forward(twice))
    assert (steps.num_graphs, capturer.replays) == (1, 2)


def test_windows_of_2_grams_write_the_same_by_recorded_steps(eager: BlockRunner) -> None:
    capturer = SimulatedCapturer()
    runner, steps = recorded(eager, capturer)
    prompt = numbers(20)
    expected = says_plainly(eager, prompt).tokens
    decoder = with_pool(Oracle((*prompt, *expected), (branching,)), Decoding(window=6, ngram=2, guesses=4))
    assert write(runner, prompt, decoder).tokens == expected
    assert (steps.note, capturer.replays > 0) == ("", True)


def test_a_bucket_is_recorded_after_its_first_steps_and_then_replayed(eager: BlockRunner) -> None:
    capturer = SimulatedCapturer()
    runner, steps = recorded(eager, capturer)
    list(runner.prefill(numbers(5)))
    counts = []
    for rows in (1, 1, 1, 1, 3, 7, 8, 5):
        runner.forward(chain_block(numbers(rows), 5, tuple(range(rows))))
        counts.append((steps.num_graphs, capturer.replays))
    assert EAGER_STEPS == 2
    assert counts == [(0, 0), (0, 0), (1, 1), (1, 2), (1, 2), (1, 2), (2, 3), (2, 4)]


def test_widths_of_the_same_text_are_recorded_as_they_are(eager: BlockRunner) -> None:
    capturer = SimulatedCapturer()
    runner, _ = recorded(eager, capturer)
    prompt = numbers(20)
    said = write(runner, prompt, plain, limit=12, buckets=(12, 24))
    assert said.tokens == says_plainly(eager, prompt, limit=12).tokens
    assert (len(capturer.tapes), capturer.replays) == (1, 12 - 1 - EAGER_STEPS)


class TightCache(BlockCache):
    """Reserves nothing ahead."""

    def reserve_ahead(self, rows: int, most: int) -> None:
        del most
        self.reserve(rows)


def test_when_the_cache_grows_everything_is_recorded_anew(eager: BlockRunner) -> None:
    """And the tape fails where it would read a buffer that is gone."""
    capturer = SimulatedCapturer()
    runner, steps = recorded(eager, capturer, cache=TightCache())
    prompt = numbers(CHUNK - 20)
    expected = says_plainly(eager, prompt)
    assert write(runner, prompt, plain).tokens == expected.tokens
    assert [tape.is_void for tape in capturer.tapes] == [True, False]
    assert steps.num_graphs == 1


def test_a_prompt_that_makes_the_cache_grow_voids_what_was_recorded(eager: BlockRunner) -> None:
    capturer = SimulatedCapturer()
    runner, _ = recorded(eager, capturer, cache=TightCache())
    write(runner, numbers(10), plain)
    longer = numbers(CHUNK + 10, seed=1)
    assert write(runner, longer, make_decoder(WIDE)).tokens == says_plainly(eager, longer).tokens
    assert capturer.tapes[0].is_void


def test_graphs_are_released_before_a_long_prompt_makes_the_cache_anew(eager: BlockRunner) -> None:
    """So that their memory is free when it is needed most."""
    capturer, held = SimulatedCapturer(), list[bool]()

    def allocate(states: Tensor, capacity: int) -> Tensor:
        held.extend(not tape.is_void for tape in capturer.tapes)
        return empty_rows(states, capacity)

    runner, _ = recorded(eager, capturer, cache=BlockCache(allocate))
    write(runner, numbers(10), plain)
    assert capturer.tapes and not held
    list(runner.prefill(numbers(AHEAD, seed=1)))
    assert held and not any(held)


def test_the_next_turn_of_a_chat_keeps_what_was_recorded(eager: BlockRunner) -> None:
    capturer = SimulatedCapturer()
    runner, _ = recorded(eager, capturer)
    write(runner, numbers(10), plain)
    recordings = len(capturer.tapes)
    assert write(runner, numbers(200), plain).tokens == says_plainly(eager, numbers(200)).tokens
    assert recordings == len(capturer.tapes) and not capturer.tapes[0].is_void


@pytest.mark.thorough
def test_a_short_prompt_behind_a_long_one_gives_room_back_and_writes_what_it_wrote() -> None:
    eager = load(architecture("roomy", "Llama", context=2 * ROOMY).make()).runner
    assert isinstance(eager, BlockRunner)
    capturer = SimulatedCapturer()
    runner, _ = recorded(eager, capturer)
    short = numbers(20)
    for prompt, chunks in ((numbers(ROOMY - AHEAD), 8), (short, 8), (numbers(ROOMY), 12), (short, 5)):
        said = write(runner, prompt, plain, limit=1 if len(prompt) > 20 else 12)
        assert room_of(runner) == chunks * CHUNK
    assert said.tokens == says_plainly(eager, short, limit=12).tokens
    assert [tape.is_void for tape in capturer.tapes] == [True, False]


def room_of(runner: BlockRunner) -> int:
    """Rows that its cache has buffers for."""
    keys = runner.cache.committed()[0]
    return keys.untyped_storage().nbytes() // (keys.element_size() * keys.shape[1] * keys.shape[3])


def test_rewinding_and_stopping_need_no_new_recording(eager: BlockRunner) -> None:
    capturer = SimulatedCapturer()
    runner, _ = recorded(eager, capturer)
    first = write(runner, numbers(30), plain)
    stopped = stream(runner, (*numbers(30), *first.tokens[:5]), plain)
    list(islice(stopped, 10))
    stopped.close()
    for prompt in (numbers(20), (*numbers(20), 7, 8, 9)):
        assert write(runner, prompt, plain).tokens == says_plainly(eager, prompt).tokens
    assert len(capturer.tapes) == 1


def test_blocks_without_a_prefix_and_those_that_are_too_wide_run_eagerly(eager: BlockRunner) -> None:
    capturer = SimulatedCapturer()
    runner, _ = recorded(eager, capturer)
    wide = chain_block(numbers(BUCKETS[-1] + 1), 5, (0, BUCKETS[-1]))
    for _ in range(EAGER_STEPS + 2):
        runner.forward(chain_block((1,), 0, (0,)))
    list(runner.prefill(numbers(5)))
    for _ in range(EAGER_STEPS + 2):
        assert runner.forward(wide).shape[0] == 2
    assert capturer.tapes == []


def test_what_cannot_be_recorded_runs_eagerly_from_then_on(eager: BlockRunner) -> None:
    capturer = SimulatedCapturer(RuntimeError("a kernel\nwith a secret"))
    runner, steps = recorded(eager, capturer)
    prompt = numbers(20)
    assert runner.buckets == BUCKETS
    for decoder in (plain, make_decoder(WIDE)):
        assert write(runner, prompt, decoder).tokens == says_plainly(eager, prompt).tokens
    assert steps.note == "the model's steps cannot be recorded (a kernel)"
    assert (runner.buckets, steps.num_graphs, capturer.replays) == ((), 0, 0)


def test_accepted_rows_are_moved_by_one_recording(eager: BlockRunner) -> None:
    """The truth stands between wrong branches, so that the rows to keep lie apart."""
    capturer = SimulatedCapturer()
    runner, _ = recorded(eager, capturer)
    prompt = numbers(20)
    expected = says_plainly(eager, prompt, limit=40).tokens
    decoder = with_pool(Oracle((*prompt, *expected), (branching,)), Decoding(window=0, ngram=6))
    said = write(runner, prompt, decoder, limit=40)
    assert said.tokens == expected
    assert said.longest_run > 2
    step, moves = capturer.tapes
    assert len(step.plays) > len(moves.plays) > 0
    assert step.played > 2 and moves.played > 2


def test_a_recording_of_moves_that_fails_costs_no_row(eager: BlockRunner) -> None:
    capturer = FailsAtSecond()
    runner, steps = recorded(eager, capturer)
    prompt = numbers(20)
    expected = says_plainly(eager, prompt).tokens
    decoder = with_pool(Oracle((*prompt, *expected), (branching,)), Decoding(window=0, ngram=6))
    assert write(runner, prompt, decoder).tokens == expected
    assert steps.note == "the model's steps cannot be recorded (no more)"


class FailsAtSecond(SimulatedCapturer):
    """Records one tape and no more."""

    def capture(self, work: Callable[[], None]) -> SimulatedGraph:
        if self.tapes:
            raise RuntimeError("no more")
        return super().capture(work)


def test_a_bucket_that_memory_is_too_small_for_runs_eagerly_and_the_others_do_not(eager: BlockRunner) -> None:
    capturer = SimulatedCapturer(torch.OutOfMemoryError("out of memory"))
    runner, steps = recorded(eager, capturer)
    prompt = numbers(20)
    assert write(runner, prompt, plain).tokens == says_plainly(eager, prompt).tokens
    assert (steps.note, capturer.replays) == ("memory ran out when a step of 1 rows was recorded", 0)
    write(runner, prompt, make_decoder(WIDE))
    assert capturer.replays > 0


def test_memory_that_runs_out_for_moves_leaves_the_steps_recorded(eager: BlockRunner) -> None:
    capturer = SimulatedCapturer()
    steps = warm(eager.model, capturer, context=1024)
    cache, capturer.faults = steps._cache, [torch.OutOfMemoryError("out of memory")]
    assert cache is not None
    steps.forward(cache, eight_rows(5))
    steps.commit(cache, (0, 2))
    steps.forward(cache, eight_rows(7))
    steps.commit(cache, (0, 2))
    assert (steps.note, cache.length) == ("memory ran out when a commit was recorded", 9)
    assert (steps.num_graphs, steps.buckets, capturer.replays) == (1, BUCKETS, 3)


class FullCache(BlockCache):
    """Memory has room for a few rows more, and not for many."""

    def reserve(self, rows: int) -> None:
        if rows > self.length + CHUNK:
            raise torch.OutOfMemoryError("out of memory")
        super().reserve(rows)


def filled(cache: BlockCache, model: PreTrainedModel, length: int) -> BlockCache:
    """With so many tokens as its prefix."""
    run_block(model, cache, chain_block(numbers(length), 0, ()), BY_PATHS.attend)
    with torch.inference_mode():
        cache.commit(range(length))
    return cache


def eight_rows(start: int) -> Block:
    """As the runner pads them."""
    return padded(chain_block(numbers(3), start, (0, 1, 2)), 8, 8)


def warm(model: PreTrainedModel, capturer: SimulatedCapturer, context: int) -> GraphSteps:
    """Steps that have recorded one of 8 rows."""
    steps = GraphSteps(model, BY_PATHS, capturer, context)
    cache = filled(BlockCache(), model, 5)
    for _ in range(EAGER_STEPS + 1):
        steps.forward(cache, eight_rows(5))
    assert (steps.num_graphs, capturer.replays) == (1, 1)
    return steps


def test_where_memory_is_too_small_to_grow_far_a_step_runs_eagerly_and_the_next_is_recorded(
    eager: BlockRunner,
) -> None:
    capturer = SimulatedCapturer()
    steps = warm(eager.model, capturer, context=8192)
    cache, block = filled(FullCache(), eager.model, CHUNK), eight_rows(CHUNK)
    expected = EagerSteps(eager.model, BY_PATHS).forward(filled(BlockCache(), eager.model, CHUNK), block)
    refused = "memory ran out while the cache was growing for recorded steps"
    for replays, note in ((1, refused), (2, "")):  # it is no news any more when the steps are recorded again
        torch.testing.assert_close(steps.forward(cache, block), expected)
        assert (capturer.replays, cache.capacity, steps.note) == (replays, 2 * CHUNK, note)


@pytest.mark.parametrize(("context", "capacity"), [(600, 2 * CHUNK), (8192, 6 * CHUNK)])
def test_a_cache_grows_ahead_as_far_as_the_context(eager: BlockRunner, context: int, capacity: int) -> None:
    steps = warm(eager.model, SimulatedCapturer(), context)
    cache = filled(BlockCache(), eager.model, CHUNK)
    steps.forward(cache, eight_rows(CHUNK))
    assert cache.capacity == capacity


def test_memory_that_runs_out_in_the_trial_is_a_note(eager: BlockRunner) -> None:
    def attend(query: Tensor, cache: LayerCache, view: BlockView, scoring: Scoring) -> Tensor:
        if view.prefix_length:
            raise torch.OutOfMemoryError("out of memory")
        return BY_PATHS.attend(query, cache, view, scoring)

    steps = tried_graphs(eager.model, Attention("triton", attend, attend), FIXED, SimulatedCapturer(), 1024)
    assert (type(steps), steps.note) == (EagerSteps, "memory ran out when graphs were tried")


def test_memory_that_runs_out_for_some_rows_in_the_trial_leaves_fewer(eager: BlockRunner) -> None:
    capturer = SimulatedCapturer(torch.OutOfMemoryError("out of memory"))
    steps = tried_graphs(eager.model, BY_PATHS, FIXED, capturer, 1024)
    assert (type(steps), steps.note) == (GraphSteps, "")


def test_a_graph_may_be_off_by_roundings_of_large_logits() -> None:
    """As half precision rounds them: by little of what the logits spread over."""
    model = LLAMA.make()
    model.get_output_embeddings().weight.data *= 1000
    eager = load(model).runner
    assert isinstance(eager, BlockRunner)

    def attend(query: Tensor, cache: LayerCache, view: BlockView, scoring: Scoring) -> Tensor:
        out = BY_PATHS.attend(query, cache, view, scoring)
        return out if view.recorded_positions is None else out * 1.0001  # recorded

    steps = tried_graphs(eager.model, Attention("triton", attend, attend), FIXED, SimulatedCapturer(), 1024)
    assert (type(steps), steps.note) == (GraphSteps, "")


def test_a_broken_capture_says_what_broke_it() -> None:
    def work() -> None:
        raise torch.OutOfMemoryError("out of memory")

    def end() -> None:
        raise RuntimeError("operation failed due to a previous error during capture")

    with pytest.raises(torch.OutOfMemoryError):
        run_and_end(work, end)


def test_a_recording_takes_a_workspace_of_its_own_and_leaves_it_to_no_other() -> None:
    """Else another model's load, which frees all of them, would leave a graph that writes to free memory."""
    happened: list[str] = []
    with pytest.raises(RuntimeError, match="no"), own_workspaces(lambda: happened.append("cleared")):
        happened.append("recorded")
        raise RuntimeError("no")
    assert happened == ["cleared", "recorded", "cleared"]


def test_a_model_whose_steps_are_recorded_is_freed_like_any_other() -> None:
    loaded = load(LLAMA.make())
    eager, capturer = loaded.runner, SimulatedCapturer()
    assert isinstance(eager, BlockRunner)
    runner, steps = recorded(eager, capturer)
    write(runner, numbers(10), plain, limit=6)
    capturer.release()
    model = weakref.ref(eager.model)
    del loaded, eager, runner, steps
    gc.collect()
    assert model() is None


def test_a_trial_decides_at_load(eager: BlockRunner) -> None:
    good = tried_graphs(eager.model, BY_PATHS, FIXED, SimulatedCapturer(), 1024)
    assert (type(good), good.note) == (GraphSteps, "")
    bad = tried_graphs(
        eager.model, BY_PATHS, FIXED, SimulatedCapturer(RuntimeError("no"), RuntimeError("no")), 1024
    )
    assert (type(bad), bad.note) == (EagerSteps, "the model's steps cannot be recorded (no)")
    turning = tried_graphs(eager.model, BY_PATHS, Rotary("dynamic", 32), SimulatedCapturer(), 1024)
    assert turning.note == "the model's rotary table depends on the text's length"


def test_a_graph_that_remembers_the_length_is_found_out(eager: BlockRunner) -> None:
    def attend(query: Tensor, cache: LayerCache, view: BlockView, scoring: Scoring) -> Tensor:
        end = view.prefix_length  # of the time when it was recorded
        near = LayerCache(cache.keys[:, :, :end], cache.values[:, :, :end])
        return BY_PATHS.attend(query, near, view, scoring)

    steps = tried_graphs(eager.model, Attention("triton", attend, attend), FIXED, SimulatedCapturer(), 1024)
    assert (type(steps), steps.note) == (
        EagerSteps,
        "a graph gave other logits or tokens than a step without a graph",
    )


@pytest.mark.parametrize(
    ("recorded_seconds", "note"),
    [(1e-3, ""), (3e-3, "a graph takes 3.0 times as long as a step without a graph")],
)
def test_steps_that_are_slower_recorded_stay_eager(
    eager: BlockRunner, recorded_seconds: float, note: str
) -> None:
    capturer, played = SimulatedCapturer(), []

    def timer(run: Run) -> float:
        before = sum(tape.played for tape in capturer.tapes)
        run()
        played.append(sum(tape.played for tape in capturer.tapes) - before)
        return recorded_seconds if played[-1] else 1e-3

    steps = tried_graphs(eager.model, BY_PATHS, FIXED, capturer, 1024, timer)
    assert steps.note == note and isinstance(steps, GraphSteps) == (not note)
    assert played[:2] == [1, 0], "a replay, and the same step eagerly"


@pytest.mark.parametrize(("tick", "timed"), [(1e-4, BUCKETS), (2e-2, (1, 8, 16, 32, 64))])
def test_a_probe_times_replays_of_the_recorded_widths(
    eager: BlockRunner, tick: float, timed: Buckets
) -> None:
    """A slow step is timed with fewer of them, and with no width that is not recorded."""
    capturer = SimulatedCapturer()
    runner, _ = recorded(eager, capturer)
    ticks = count()  # a clock of its own: on a slow machine fewer numbers of rows are timed
    profile = profile_steps(runner, lambda _done, _total: None, lambda: next(ticks) * tick)
    assert profile.free.buckets == timed
    assert len(capturer.tapes) == len(timed)
    assert all(tape.played >= 1 for tape in capturer.tapes)


def test_the_tuner_counts_with_the_recorded_widths(eager: BlockRunner) -> None:
    runner, _ = recorded(eager, SimulatedCapturer())
    prompt = numbers(20)
    profile = StepProfile(StepTimes(BUCKETS, tuple(1e-3 + rows * 1e-5 for rows in BUCKETS)))
    known = ReplyContext(profile=profile)
    said = write(runner, prompt, make_decoder(Decoding(), known))
    assert said.tokens == says_plainly(eager, prompt).tokens
    assert list(known.statistics.shapes) == [BUCKETS]


def test_on_a_cpu_nothing_is_recorded(eager: BlockRunner) -> None:
    steps = choose_steps(eager.model, BY_PATHS, FIXED, 1024)
    assert (type(steps), steps.note, steps.buckets) == (EagerSteps, "", ())


def test_a_card_without_our_attention_is_told_why_nothing_is_recorded() -> None:
    model = cast(PreTrainedModel, SimpleNamespace(device=torch.device("cuda")))
    steps = choose_steps(model, SDPA, FIXED, 1024)
    assert steps.note == "they need Triton attention, but sdpa attention is in use"


@pytest.mark.parametrize("steps", some(named((4, 8))))
def test_our_kernels_write_the_same_bits_recorded_and_eager(eager: BlockRunner, steps: int) -> None:
    """The kernels in the interpreter, over whole buffers with a table that stays."""
    if not interprets_triton():
        pytest.skip("on a card test_graph_capturer.py has the same")
    fused = triton_backend()

    def attend(query: Tensor, cache: LayerCache, view: BlockView, scoring: Scoring) -> Tensor:
        _, heads, rows, _ = query.shape
        out = query.new_empty((1, rows, heads, cache.values.shape[3]))

        def run() -> None:
            out.copy_(fused(query, cache, view, scoring))

        opaque(run, out, query)
        return out

    attention, capturer = Attention("triton", attend, attend), SimulatedCapturer()
    runner, _ = recorded(eager, capturer, attention)
    reference = BlockRunner(eager.model, eager.context, FIXED, attention)
    list(runner.prefill(numbers(10)))
    list(reference.prefill(numbers(10), (8,)))
    for place in range(10, 10 + steps):
        block = chain_block(numbers(3, seed=place), place, (0, 2))
        assert torch.equal(runner.forward(block), reference.forward(block))
        for each in (runner, reference):
            each.commit((0,))
    assert capturer.replays == steps - EAGER_STEPS


def test_a_blocks_numbers_arrive_where_steps_read_them_and_stay_there() -> None:
    inputs = StepInputs(4, torch.device("cpu"))
    draws = Draws(Sampling(0.5, 20, 0.9, 0.1, seed=3), (1, 2, 3, 4)).inputs(100)
    places = [states.data_ptr() for states in (inputs.tokens, inputs.slots, inputs.paths)]
    for start in (5, 9):
        block = padded(chain_block((7, 8, 9), start, (2,)), 4, 4)
        assert inputs.fill(block, start, draws)
        assert inputs.tokens.tolist() == [[7, 8, 9, 7]]
        assert inputs.positions.tolist() == [[start, start + 1, start + 2, start]]
        assert inputs.slots.tolist() == [start, start + 1, start + 2, start + 3]
        assert inputs.wanted.tolist() == [2, 0, 0, 0]
        expected = row_paths(start, block)
        assert inputs.paths.numpy().tolist() == expected.tolist()
        assert places == [states.data_ptr() for states in (inputs.tokens, inputs.slots, inputs.paths)]
        assert inputs.settings.tolist() == [0.5, 0.9, 0.1, 20.0]
        assert inputs.keys.tolist() == draws[4:].tolist()


def test_a_block_whose_rows_are_strewn_too_deep_is_not_sent() -> None:
    rows = NEWEST + 3
    parents = (-1, 0, 0, *range(2, rows - 1))  # row 1 is another branch: all rows behind it are out of place
    positions = (5, 6, *range(6, 6 + rows - 2))
    inputs = StepInputs(rows, torch.device("cpu"))
    assert not inputs.fill(Block(tuple(range(rows)), positions, parents, tuple(range(rows))), 5, NO_DRAWS)
    assert not inputs.tokens.any()


def test_a_block_of_another_size_is_refused() -> None:
    with pytest.raises(ValueError, match="inputs are for 4 rows, not 3, of which 1 are wanted"):
        StepInputs(4, torch.device("cpu")).fill(chain_block((7, 8, 9), 5, (2,)), 5, NO_DRAWS)
