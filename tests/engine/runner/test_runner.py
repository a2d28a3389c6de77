"""A prompt is read in chunks into buffers that are allocated once."""

import pytest
import torch
from torch import Tensor

from app.engine.attention.backend_choice import SDPA
from app.engine.decoders.plain import plain
from app.engine.runner.kv_cache import AHEAD, CHUNK, BlockCache, empty_rows
from app.engine.runner.model_config import rotary_of
from app.engine.runner.runner import PREFILL_CHUNK, BlockRunner
from tests.engine.architectures import architecture
from tests.engine.replies import load, numbers, says_plainly, write

CONTEXT = 8192


class CountingAllocator:
    """Counts buffers and their rows; there is no memory for one with more than `most` rows."""

    def __init__(self, most: int = CONTEXT * 2) -> None:
        self.capacities: list[int] = []
        self.most = most

    def __call__(self, states: Tensor, capacity: int) -> Tensor:
        if capacity > self.most:
            raise torch.OutOfMemoryError("out of memory")
        self.capacities.append(capacity)
        return empty_rows(states, capacity)


@pytest.fixture(scope="module")
def loaded() -> BlockRunner:
    runner = load(architecture("long", "Llama", context=CONTEXT).make()).runner
    assert isinstance(runner, BlockRunner)
    return runner


def counted(loaded: BlockRunner, allocator: CountingAllocator) -> BlockRunner:
    """A runner of the same model whose cache was never written to."""
    rotary = rotary_of(loaded.model.config.get_text_config(decoder=True), CONTEXT)
    return BlockRunner(loaded.model, CONTEXT, rotary, SDPA, cache=BlockCache(allocator))


def buffers_of(runner: BlockRunner) -> int:
    """Keys and values of every layer."""
    return 2 * int(runner.model.config.num_hidden_layers)


def test_a_prompt_of_any_length_allocates_each_buffer_once(loaded: BlockRunner) -> None:
    allocator = CountingAllocator()
    runner = counted(loaded, allocator)
    first = numbers(3 * PREFILL_CHUNK)
    write(runner, first, plain, limit=8)
    assert allocator.capacities == [len(first) + AHEAD] * buffers_of(runner)
    longer = (*first, *numbers(2 * AHEAD, seed=1))
    assert write(runner, longer, plain, limit=8).tokens == says_plainly(loaded, longer, limit=8).tokens
    assert allocator.capacities[buffers_of(runner) :] == [len(longer) + AHEAD] * buffers_of(runner)


def test_no_more_is_reserved_than_the_context_and_a_step(loaded: BlockRunner) -> None:
    allocator = CountingAllocator()
    list(counted(loaded, allocator).prefill(numbers(CONTEXT - 4 * CHUNK + 1)))
    assert set(allocator.capacities) == {CONTEXT + CHUNK}


def test_where_there_is_room_for_the_prompt_alone_it_gets_that(loaded: BlockRunner) -> None:
    allocator = CountingAllocator(most=7 * CHUNK)
    runner, prompt = counted(loaded, allocator), numbers(6 * CHUNK)
    write(runner, numbers(20), plain, limit=1)
    assert write(runner, prompt, plain, limit=8).tokens == says_plainly(loaded, prompt, limit=8).tokens
    assert 6 * CHUNK in allocator.capacities
