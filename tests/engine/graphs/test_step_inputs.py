"""One copy brings everything that a recorded step reads to where it is read."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from app.engine.attention.paths import NEWEST, row_paths
from app.engine.block.block import Block, chain_block, padded
from app.engine.graphs.native_step_inputs import best_pack, compiled_inputs
from app.engine.graphs.step_graphs import StepInputs, packed_inputs
from app.engine.machine.compiling import Compiled

CPU = torch.device("cpu")


def test_a_blocks_numbers_arrive_where_steps_read_them_and_stay_there() -> None:
    inputs = StepInputs(4, CPU)
    places = [states.data_ptr() for states in (inputs.tokens, inputs.slots, inputs.paths)]
    for start in (5, 9):
        block = padded(chain_block((7, 8, 9), start, (2,)), 4, 4)
        assert inputs.fill(block, start)
        assert inputs.tokens.tolist() == [[7, 8, 9, 7]]
        assert inputs.positions.tolist() == [[start, start + 1, start + 2, start]]
        assert inputs.slots.tolist() == [start, start + 1, start + 2, start + 3]
        assert inputs.wanted.tolist() == [2, 0, 0, 0]
        expected = row_paths(start, block)
        assert inputs.paths.numpy().tolist() == expected.tolist()
        assert places == [states.data_ptr() for states in (inputs.tokens, inputs.slots, inputs.paths)]


def test_a_block_whose_rows_are_strewn_too_deep_is_not_sent() -> None:
    rows = NEWEST + 3
    parents = (-1, 0, 0, *range(2, rows - 1))  # row 1 is another branch: all rows behind it are out of place
    positions = (5, 6, *range(6, 6 + rows - 2))
    inputs = StepInputs(rows, CPU)
    assert not inputs.fill(Block(tuple(range(rows)), positions, parents, tuple(range(rows))), 5)
    assert not inputs.tokens.any()


@pytest.mark.skipif(compiled_inputs().library is None, reason="there is no C compiler here")
@given(
    prefix=st.integers(0, 70),
    gap=st.sampled_from([0, 0, 0, 1]),
    back=st.sampled_from([1, 3, 90]).flatmap(
        lambda most: st.lists(st.integers(1, most), min_size=1, max_size=90)
    ),
    wanted=st.sampled_from([0, 2]),
)
def test_c_lays_out_the_numbers_that_python_does(prefix: int, gap: int, back: list[int], wanted: int) -> None:
    """Trees, chains that are too deep, rows of their own, blocks that leave positions out."""
    parents = tuple(max(row - places, -1) for row, places in enumerate(back))
    positions: list[int] = []
    for parent in parents:
        positions.append(prefix + gap if parent < 0 else positions[parent] + 1)
    rows = tuple(range(len(back)))
    block = Block(rows, tuple(positions), parents, tuple(max(row - wanted, 0) for row in rows))
    assert best_pack()(block, prefix).tolist() == packed_inputs(block, prefix).tolist()


def test_without_a_compiler_they_are_laid_out_in_python() -> None:
    assert best_pack(Compiled(None)) is packed_inputs


def test_a_block_of_another_size_is_refused() -> None:
    with pytest.raises(ValueError, match="inputs are for 4 rows, got 3, of which 1 are wanted"):
        StepInputs(4, CPU).fill(chain_block((7, 8, 9), 5, (2,)), 5)
