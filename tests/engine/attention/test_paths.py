"""The table of paths leads every row to exactly the keys that it sees."""

import timeit

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.engine.attention.paths import BORDER, NEWEST, POSITION, SLOTS, Paths, _any_paths, row_paths
from app.engine.block.block import Block, chain_block, padded
from app.engine.decoders.lookahead_decoder import lay_out
from app.engine.lookahead.draft_tree import DraftTree
from app.engine.lookahead.jacobi_window import JacobiWindow
from app.engine.runner.model_config import anchored
from tests.engine.attention.cases import Case, seen_keys


def table_of(block: Block, prefix: int) -> Paths:
    """Made in C if it can be; a machine without a compiler makes the same one."""
    table = row_paths(prefix, block)
    assert np.array_equal(table, _any_paths(prefix, block))
    return table


def found(table: Paths, row: int) -> list[int]:
    """The slots that a row's path leads to, oldest first."""
    slots = table[row, SLOTS:]
    position, border = int(table[row, POSITION]), int(table[row, BORDER])
    chunks = min(-(-(position + 1 - border) // NEWEST), len(slots) // NEWEST)
    newest = slots[len(slots) - chunks * NEWEST :]
    return [*range(border), *(int(slot) for slot in newest if slot >= 0)]


def test_a_prompts_chunk_costs_the_host_little() -> None:
    """Compared row by row, 1,024 rows took 22 ms."""
    block = chain_block((0,) * 1024, 700, ())
    assert min(timeit.repeat(lambda: row_paths(700, block), number=1, repeat=9)) < 0.008


@pytest.mark.parametrize("prefix", [0, 7, 100])
def test_a_chain_finds_its_keys_in_their_places(prefix: int) -> None:
    case = Case(prefix=prefix, parents=tuple(range(80)))
    table = table_of(case.block, prefix)
    assert table.shape == (81, SLOTS + NEWEST)
    assert [found(table, row) for row in range(81)] == [list(range(prefix + row + 1)) for row in range(81)]


@given(st.data())
def test_a_tree_of_any_depth_finds_its_keys_by_position(data: st.DataObject) -> None:
    rows = data.draw(st.integers(0, 90))
    reach = data.draw(st.sampled_from([1, 2, 90]))  # 1 is a chain
    parents = tuple(data.draw(st.integers(max(0, row - reach + 1), row)) for row in range(rows))
    case = Case(prefix=data.draw(st.integers(0, 70)), parents=parents)
    table = table_of(case.block, case.prefix)
    for row in range(rows + 1):
        assert found(table, row) == seen_keys(case, case.block, row)


@given(
    prefix=st.integers(0, 70),
    branches=st.lists(st.integers(1, 9), max_size=60),
    window=st.tuples(st.integers(1, 5), st.integers(1, 4)),
    rows=st.integers(0, 40),
)
def test_a_step_has_the_table_that_any_block_would_have(
    prefix: int, branches: list[int], window: tuple[int, int], rows: int
) -> None:
    tree = DraftTree([7])
    for token, branch in enumerate(branches):
        tree.add((len(tree) - 1) // branch, token, "model")
    width, levels = window
    step, _ = lay_out(tree, JacobiWindow(width, levels + 1, range(width + levels - 1)), prefix)
    table_of(padded(step, len(step) + rows, len(step.wanted)), prefix)


@pytest.mark.parametrize(("width", "levels"), [(1, 3), (5, 3), (40, 4), (120, 2)])
def test_so_does_a_window_however_wide(width: int, levels: int) -> None:
    window = JacobiWindow(width, levels + 1, range(width + levels - 1))
    block, _ = lay_out(DraftTree([7]), window, 50)
    table = table_of(block, 50)
    for row in range(len(block)):
        assert sorted(found(table, row)) == seen_keys(Case(prefix=50), block, row)


def test_a_chain_lies_in_order_and_needs_no_more_than_the_newest() -> None:
    table = table_of(chain_block(range(500), 30, ()), 30)
    assert table.shape == (500, SLOTS + NEWEST)
    assert found(table, 499) == list(range(530))


def test_padding_and_anchors_see_themselves() -> None:
    block = anchored(padded(chain_block((7, 8), 30, ()), 6, 0), 100_000)
    table = table_of(block, 30)
    assert table.shape == (7, SLOTS + NEWEST)
    for row in range(7):
        assert found(table, row) == seen_keys(Case(prefix=30), block, row)


def test_two_keys_at_one_position_are_refused() -> None:
    with pytest.raises(ValueError, match=r"one key at each position, but row 2 sees keys at \[4, 5, 5\]"):
        table_of(Block((7, 8, 9), (4, 5, 5), (-1, 0, 1), ()), 4)


@pytest.mark.parametrize("length", [0, 1, NEWEST - 1, NEWEST, NEWEST + 1, 4096])
def test_a_lone_row_has_the_table_that_it_has_among_others(length: int) -> None:
    alone, pair = chain_block((1,), length, (0,)), chain_block((1, 2), length, (0,))
    expected, _ = table_of(pair, length)
    assert table_of(alone, length).tolist() == [expected.tolist()]
