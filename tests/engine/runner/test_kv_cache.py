"""The cache keeps the right rows, whatever was committed, however far it grew."""

from collections.abc import Sequence

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from transformers import GemmaConfig, LlamaConfig, MistralConfig, Qwen2Config

from app.engine.runner.kv_cache import CHUNK, BlockCache, layer_windows

LAYERS, HEADS, SIZE = 2, 2, 3


def rows_of(names: Sequence[int], layer: int) -> tuple[Tensor, Tensor]:
    """Keys and values [1, HEADS, T, SIZE] that tell their row's name, their layer and their head."""
    shape = (1, HEADS, len(names), SIZE)
    named = torch.tensor(names, dtype=torch.float32).reshape(1, 1, -1, 1).expand(shape)
    heads = torch.arange(HEADS).reshape(1, -1, 1, 1) / 4
    keys = named + heads + 10_000 * layer
    return keys, -keys


def feed(cache: BlockCache, names: Sequence[int]) -> None:
    """One forward pass: a block of rows with these names, in every layer."""
    for layer in range(LAYERS):
        cache.update(*rows_of(names, layer), layer)


def assert_holds(cache: BlockCache, names: Sequence[int]) -> None:
    """The committed rows in every layer, as the next pass would see them."""
    assert cache.length == len(names)
    for layer in range(LAYERS):
        keys, values = cache.update(*rows_of([9_999], layer), layer)
        expected_keys, expected_values = rows_of([*names, 9_999], layer)
        assert torch.equal(keys, expected_keys)
        assert torch.equal(values, expected_values)


def test_commit_keeps_the_accepted_rows_and_forgets_the_rest() -> None:
    cache = BlockCache()
    feed(cache, [1, 2, 3])
    cache.commit([0, 1, 2])
    feed(cache, [8, 9, 10])  # not committed
    feed(cache, [4, 5, 6, 7])
    cache.commit([0, 2])
    assert_holds(cache, [1, 2, 3, 4, 6])


def test_rows_move_down_over_rows_that_move_themselves() -> None:
    cache = BlockCache()
    feed(cache, range(10))
    cache.commit([0, 2, 3, 4, 9])
    assert_holds(cache, [0, 2, 3, 4, 9])


def test_memory_that_runs_out_while_layers_grow_leaves_them_all_as_they_were() -> None:
    cache, rows = BlockCache(), 2 * 10**8
    cache.update(torch.ones(1, 1, 3, 1, dtype=torch.uint8), torch.ones(1, 1, 3, 1, dtype=torch.uint8), 0)
    wide = torch.ones(1, 1, 3, 2**20, dtype=torch.uint8)  # so many rows of it fit into no address space
    cache.update(wide, wide, 1)
    cache.commit(range(3))
    version = cache.version
    with pytest.raises(RuntimeError):
        cache.reserve(rows)
    assert cache.version > version
    keys = [layer.keys for layer in cache.layers]
    assert [key.shape[2] for key in keys if key is not None] == [CHUNK, CHUNK]
    assert all(key[0, 0, :3].all() for key in keys if key is not None)


def test_room_is_given_back_and_committed_rows_stay() -> None:
    cache = BlockCache()
    feed(cache, range(3 * CHUNK))
    cache.commit(range(CHUNK + 1))
    version = cache.version
    cache.give_back(5)
    assert (cache.capacity, cache.version > version) == (2 * CHUNK, True)
    assert_holds(cache, range(CHUNK + 1))
    version = cache.version
    cache.give_back(3 * CHUNK)
    assert (cache.capacity, cache.version) == (2 * CHUNK, version)


def test_a_cache_grows_over_its_chunks_and_keeps_every_row() -> None:
    cache = BlockCache()
    feed(cache, range(CHUNK - 2))
    cache.commit(range(CHUNK - 2))
    feed(cache, [5_000, 5_001, 5_002, 5_003, 5_004])
    cache.commit([0, 2, 4])
    assert_holds(cache, [*range(CHUNK - 2), 5_000, 5_002, 5_004])
    feed(cache, range(6_000, 6_000 + 2 * CHUNK))
    cache.commit([0, 2 * CHUNK - 1])
    assert_holds(cache, [*range(CHUNK - 2), 5_000, 5_002, 5_004, 6_000, 6_000 + 2 * CHUNK - 1])


def test_rewinding_forgets_the_newest_rows_and_the_next_block_follows() -> None:
    cache = BlockCache()
    feed(cache, [1, 2, 3, 4])
    cache.commit(range(4))
    cache.rewind(2)
    feed(cache, [7])
    cache.commit([0])
    assert_holds(cache, [1, 2, 7])


@pytest.mark.parametrize("length", [-1, 3])
def test_a_cache_cannot_be_rewound_to_what_it_never_held(length: int) -> None:
    cache = BlockCache()
    feed(cache, [1, 2])
    cache.commit([0, 1])
    with pytest.raises(ValueError, match=f"cannot rewind a cache of 2 rows to {length}"):
        cache.rewind(length)


@given(st.lists(st.tuples(st.integers(1, 6), st.sets(st.integers(1, 5)), st.integers(0, 4)), max_size=12))
def test_any_steps_and_rewinds_leave_what_a_list_would_hold(steps: list[tuple[int, set[int], int]]) -> None:
    cache, expected, name = BlockCache(), list[int](), 0
    for size, wanted, forgotten in steps:
        block = list(range(name, name + size))
        name += size
        kept = [0, *sorted(row for row in wanted if row < size)]
        feed(cache, block)
        cache.commit(kept)
        expected += [block[row] for row in kept]
        expected = expected[: max(len(expected) - forgotten, 0)]
        cache.rewind(len(expected))
    assert_holds(cache, expected)


def test_each_layers_window_is_read_from_the_config() -> None:
    assert layer_windows(LlamaConfig(num_hidden_layers=2)) == [0, 0]
    assert layer_windows(MistralConfig(num_hidden_layers=2, sliding_window=12)) == [12, 12]
    assert layer_windows(GemmaConfig(num_hidden_layers=1)) == [0]
    mixed = Qwen2Config(num_hidden_layers=3, use_sliding_window=True, sliding_window=8, max_window_layers=1)
    assert layer_windows(mixed) == [0, 8, 8]


def test_rows_go_to_given_slots_and_the_whole_buffers_come_back() -> None:
    cache = BlockCache()
    feed(cache, [1, 2, 3])
    cache.commit(range(3))
    with cache.writing_at(torch.tensor([3, 4])):
        keys, _ = cache.update(*rows_of([7, 8], 0), 0)
        cache.update(*rows_of([7, 8], 1), 1)
    assert keys.shape[2] == cache.capacity == CHUNK
    cache.commit([1])
    assert_holds(cache, [1, 2, 3, 8])


def test_another_version_tells_that_buffers_were_made_anew() -> None:
    cache = BlockCache()
    assert (cache.capacity, cache.version) == (0, 0)
    feed(cache, [1, 2])
    cache.commit([0, 1])
    before = cache.version
    cache.reserve(CHUNK)
    cache.rewind(1)
    assert (cache.capacity, cache.version) == (CHUNK, before)
    cache.reserve(CHUNK + 1)
    assert (cache.capacity, cache.version > before) == (2 * CHUNK, True)
    assert_holds(cache, [1])
