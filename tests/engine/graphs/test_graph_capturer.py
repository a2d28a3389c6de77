"""CUDA graphs on a card: the same bits as eager steps, after growth, stops and switches, and the memory comes back.

What does not need a card is tested with a tape, in `test_step_graphs.py`."""

import gc
from itertools import islice

import pytest
import torch
from transformers import PreTrainedModel

from app.engine.attention.backend_choice import (
    Attention,
    DeviceCapabilities,
    capabilities_of,
    choose_attention,
)
from app.engine.block.block import chain_block
from app.engine.decoders import make_decoder
from app.engine.decoders.plain import plain
from app.engine.graphs.captured_steps import BUCKETS, EAGER_STEPS, GraphSteps
from app.engine.graphs.graph_capturer import GraphCapturer
from app.engine.graphs.graph_trial import choose_steps
from app.engine.loading.loading import prepare
from app.engine.machine.process_memory import release_memory
from app.engine.runner.kv_cache import CHUNK
from app.engine.runner.model_config import Rotary, heads_of
from app.engine.runner.runner import BlockRunner
from app.engine.sampling.sampling import best_tokens
from app.values.messages import Decoding, ModelChoice, ModelFolder
from tests.engine.architectures import BRANCHING, LLAMA, LONG, Architecture
from tests.engine.replies import Letters, numbers, stream, write
from tests.engine.tiny import DEMO

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="CUDA graphs need a card")
pytest.importorskip("triton", reason="triton is not installed")

CUDA = torch.device("cuda")
FIXED = Rotary("fixed", LONG)
WIDE = Decoding("lookahead", window=4, ngram=3, guesses=4)
DTYPES = [torch.float32, torch.bfloat16]


def on_card(architecture: Architecture, dtype: torch.dtype) -> tuple[PreTrainedModel, Attention]:
    """The model, with our kernels as its attention."""
    model = architecture.make().to(CUDA, dtype)
    prepare(model, Letters(), ModelFolder(DEMO, "zoo"), ModelChoice("zoo", attention="triton"))
    return model, choose_attention(
        "triton", machine(), heads_of(model.config.get_text_config(decoder=True), dtype)
    )


def machine() -> DeviceCapabilities:
    return capabilities_of(CUDA)


def runners(dtype: torch.dtype) -> tuple[BlockRunner, BlockRunner, GraphSteps]:
    """An eager and a recorded runner of one model."""
    model, attention = on_card(LLAMA, dtype)
    steps = choose_steps(model, attention, FIXED, LONG)
    assert isinstance(steps, GraphSteps), steps.note
    recorded = BlockRunner(model, LONG, FIXED, attention, steps)
    return BlockRunner(model, LONG, FIXED, attention), recorded, steps


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("bucket", BUCKETS)
def test_a_graph_writes_the_bits_that_eager_steps_write(dtype: torch.dtype, bucket: int) -> None:
    eager, recorded, steps = runners(dtype)
    list(eager.prefill(numbers(40), (bucket,)))
    list(recorded.prefill(numbers(40)))
    for place in range(40, 40 + EAGER_STEPS + 6):
        block = chain_block(numbers(bucket, seed=place), place, tuple(range(bucket)))
        said = recorded.forward(block)
        assert torch.equal(eager.forward(block), said)
        best = steps.best_tokens(bucket, 1)
        assert best is None or torch.equal(best, best_tokens(said, best.shape[1] // 2))
        for runner in (eager, recorded):
            runner.commit((0,))
    assert best is not None
    assert (steps.note, steps.num_graphs) == ("", 1)


@pytest.mark.parametrize("architecture", BRANCHING, ids=str)
def test_architectures_say_the_same_or_tell_why_they_are_not_recorded(architecture: Architecture) -> None:
    try:
        model, attention = on_card(architecture, torch.float32)
    except Exception as refused:
        pytest.skip(f"our kernels do not take it: {refused}")
    context = model.config.get_text_config(decoder=True).max_position_embeddings
    steps = GraphSteps(model, attention, GraphCapturer(CUDA), context)
    plainly = write(BlockRunner(model, context, FIXED, attention), numbers(16), plain, limit=12)
    runner = BlockRunner(model, context, FIXED, attention, steps)
    assert write(runner, numbers(16), plain, limit=12).tokens == plainly.tokens
    assert steps.note or steps.num_graphs
    assert not torch.cuda.is_current_stream_capturing()
    assert torch.cuda.current_stream() == torch.cuda.default_stream()


def test_a_row_that_is_read_twice_finds_room_for_its_logits() -> None:
    """As row 0 is where a window of 2-grams is open: 8 rows, and 9 wanted."""
    eager, recorded, steps = runners(torch.float32)
    list(eager.prefill(numbers(40), (16,)))
    list(recorded.prefill(numbers(40)))
    twice = chain_block(numbers(8), 40, (*range(8), 0))
    for _ in range(EAGER_STEPS + 2):
        assert torch.equal(eager.forward(twice), recorded.forward(twice))
    assert (steps.note, steps.num_graphs) == ("", 1)


def test_growth_stops_and_restarts_change_no_text() -> None:
    eager, recorded, steps = runners(torch.float32)
    prompt = numbers(CHUNK - 20)
    for decoder in (plain, make_decoder(WIDE)):
        for runner in (eager, recorded):
            list(islice(stream(runner, prompt, decoder), 9))  # stopped on the way
        expected = write(eager, prompt, decoder, limit=60)
        assert write(recorded, prompt, decoder, limit=60).tokens == expected.tokens
    assert steps.num_graphs


def test_what_is_recorded_outlives_the_workspaces_that_another_load_frees() -> None:
    eager, recorded, steps = runners(torch.bfloat16)
    list(eager.prefill(numbers(40), (16,)))
    list(recorded.prefill(numbers(40)))
    block = chain_block(numbers(16), 40, tuple(range(16)))
    for _ in range(EAGER_STEPS + 1):
        recorded.forward(block)
    release_memory()
    rubbish = [torch.full((1 << 22,), torch.nan, device=CUDA) for _ in range(8)]
    assert torch.equal(recorded.forward(block), eager.forward(block))
    assert steps.num_graphs == 1 and all(bool(each.isnan().all()) for each in rubbish)


def test_work_that_waits_for_the_device_is_refused_and_the_next_recording_works() -> None:
    capturer, numbers_there = GraphCapturer(CUDA), torch.zeros(4, device=CUDA)

    def waits() -> None:
        numbers_there.add_(1).sum().item()

    def adds() -> None:
        numbers_there.add_(1)

    with pytest.raises(RuntimeError):
        capturer.capture(waits)
    graph = capturer.capture(adds)
    before = numbers_there.clone()
    graph.replay()
    assert torch.equal(numbers_there, before + 1)
    assert torch.cuda.get_sync_debug_mode() == 0


def test_a_capture_that_breaks_leaves_a_device_that_works() -> None:
    """What the first run could not find out: the second one waits, in the middle of the capture."""
    capturer, runs = GraphCapturer(CUDA), list[int]()
    values = torch.ones(4, device=CUDA)

    def waits_later() -> None:
        runs.append(1)
        values.mul_(2)
        if len(runs) == 2:
            torch.cuda.current_stream().synchronize()

    with pytest.raises(RuntimeError):
        capturer.capture(waits_later)
    assert torch.cuda.current_stream() == torch.cuda.default_stream()
    assert (torch.ones(4, device=CUDA) + 1).sum().item() == 8
    # The first run counts as the third, so that nothing waits any more.
    capturer.capture(waits_later).replay()


def test_switching_models_ends_with_the_memory_it_began_with() -> None:
    def use() -> None:
        _, recorded, steps = runners(torch.bfloat16)
        write(recorded, numbers(CHUNK - 10), make_decoder(WIDE))
        write(recorded, numbers(20), plain)
        assert steps.num_graphs

    used: list[tuple[int, int]] = []
    for _ in range(4):
        use()
        gc.collect()
        release_memory()
        used.append((torch.cuda.memory_allocated(), torch.cuda.memory_reserved()))
    assert used[1] == used[2] == used[3]
