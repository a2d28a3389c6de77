"""Blocks refuse to be built wrong."""

import pytest

from app.engine.block.block import Block, chain_block, newest_on_path, padded
from tests.engine.lookahead.drafting import drawn


def test_in_a_chain_each_row_sees_all_rows_before_it() -> None:
    block = chain_block([7, 8, 9], start=10, wanted=(2,))
    assert (block.tokens, block.positions, block.wanted) == ((7, 8, 9), (10, 11, 12), (2,))
    assert drawn(block.visible()) == ["1..", "11.", "111"]
    assert len(block) == 3


@pytest.mark.parametrize(
    ("tokens", "positions", "rows"), [((), (), 0), ((1, 2), (0,), 2), ((1, 2), (0, 1), 3), ((1,), (0,), 0)]
)
def test_tokens_positions_and_parents_are_as_many(
    tokens: tuple[int, ...], positions: tuple[int, ...], rows: int
) -> None:
    with pytest.raises(ValueError, match=f"not {len(tokens)} tokens, {len(positions)} positions"):
        Block(tokens, positions, (-1,) * rows, wanted=())


@pytest.mark.parametrize("parents", [(-1, 1), (0, 0), (-2, 0), (1, -1)])
def test_a_parent_comes_before_its_row(parents: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="a row's parent must come before it; the parents are"):
        Block((7, 8), (0, 1), parents, ())


def test_a_row_sees_its_parent_and_all_that_this_one_sees() -> None:
    block = Block((7, 8, 9, 6, 5), (0, 1, 2, 2, 1), (-1, 0, 1, 1, 0), ())
    assert drawn(block.visible()) == ["1....", "11...", "111..", "11.1.", "1...1"]


@pytest.mark.parametrize("wanted", [(2,), (-1,), (0, 5)])
def test_wanted_rows_lie_in_the_block(wanted: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="wanted rows must lie in the block of 2 rows"):
        chain_block([7, 8], start=0, wanted=wanted)


def test_rows_that_pad_a_block_come_last_and_see_only_themselves() -> None:
    block = padded(chain_block([7, 8], start=10, wanted=(1,)), rows=4, wanted=2)
    assert (block.tokens, block.positions, block.wanted) == ((7, 8, 7, 7), (10, 11, 10, 10), (1, 0))
    assert drawn(block.visible()) == ["1...", "11..", "..1.", "...1"]


def test_the_newest_rows_of_a_path_are_its_own_and_before_them_committed_ones() -> None:
    block = Block((7, 8, 9, 6, 5), (0, 1, 2, 2, 1), (-1, 0, 1, 1, 0), ())
    assert newest_on_path(block, 3).tolist() == [[-2, -1, 0], [-1, 0, 1], [0, 1, 2], [0, 1, 3], [-1, 0, 4]]
