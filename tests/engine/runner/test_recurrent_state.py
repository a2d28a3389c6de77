"""A recurrent state after any path of a tree is that of the same text, and is kept where a text may go on."""

import gc
import json
from collections.abc import Iterator, Sequence
from itertools import chain

import pytest
import torch
from torch import Tensor

from app.engine.block.block import Block, chain_block
from app.engine.drafters.draft_model import prefilled
from app.engine.machine.hardware import is_close
from app.engine.measuring.same_bits import has_experts
from app.engine.runner.runner import BlockRunner
from app.models_registry.files.config import parse_config
from app.values.messages import MAX_ROWS
from app.values.model import KEPT_STATES
from tests.engine.recurrent_architectures import TREES
from tests.engine.replies import Zoo, numbers
from tests.tiers import named, some

PROMPT = numbers(9)
TREE = Block(
    tokens=(7, 8, 9, 5, 6, 4, 8),
    positions=(9, 10, 11, 10, 11, 12, 10),
    parents=(-1, 0, 1, 0, 3, 4, 0),
    wanted=tuple(range(7)),
)
PATHS = ((0,), (0, 1), (0, 1, 2), (0, 3), (0, 3, 4), (0, 3, 4, 5), (0, 6))


@pytest.fixture(params=some(named(TREES), "qwen3.5", "falcon-h1", "lfm2"))
def runner(zoo: Zoo, request: pytest.FixtureRequest) -> Iterator[BlockRunner]:
    """The runner of a model with recurrent layers, which has read the prompt."""
    found = zoo.runner(request.param)
    assert isinstance(found, BlockRunner)
    prefilled(found, PROMPT)
    yield found
    found.forget()


def after(runner: BlockRunner, token: int) -> Tensor:
    """The logits of one more token, which is not committed."""
    return runner.forward(chain_block((token,), runner.length, (0,)))


def in_one_pass(runner: BlockRunner, tokens: Sequence[int]) -> Tensor:
    """The logits after the prompt and these tokens, from a new cache."""
    runner.forget()
    return prefilled(runner, (*PROMPT, *tokens))


def test_each_row_continues_its_own_path(runner: BlockRunner) -> None:
    logits = runner.forward(TREE).clone()
    for path in PATHS:
        assert is_close(logits[path[-1]], in_one_pass(runner, [TREE.tokens[row] for row in path]))


def test_the_state_after_any_path_is_that_of_the_same_text(runner: BlockRunner) -> None:
    for path in PATHS:
        runner.forget()
        prefilled(runner, PROMPT)
        runner.forward(TREE)
        runner.commit(path)
        found = after(runner, 3).clone()
        assert is_close(found[0], in_one_pass(runner, [*(TREE.tokens[row] for row in path), 3]))


def test_what_other_branches_hold_changes_no_bit_of_a_row(runner: BlockRunner) -> None:
    if has_experts(runner.model):
        pytest.skip("experts process rows in groups")
    logits = runner.forward(TREE).clone()
    others = Block((7, 8, 9, 1, 2, 3, 11), TREE.positions, TREE.parents, TREE.wanted)
    assert torch.equal(runner.forward(others)[:3], logits[:3])


def test_a_step_that_is_not_committed_leaves_no_trace(runner: BlockRunner) -> None:
    before = after(runner, 3).clone()
    runner.forward(TREE)
    assert torch.equal(after(runner, 3), before)


def test_a_prompt_is_read_again_from_the_newest_state_that_it_shares(runner: BlockRunner) -> None:
    runner.forward(TREE)
    runner.commit((0, 3, 4))
    longer = (*PROMPT, 7, 5, 6, 2)
    expected = in_one_pass(runner, longer[len(PROMPT) :]).clone()
    prefilled(runner, PROMPT)
    runner.forward(TREE)
    runner.commit((0, 3, 4))
    assert is_close(prefilled(runner, longer), expected)
    assert runner.reused == 12, "the state after the accepted path"
    prefilled(runner, (*PROMPT, 1))
    assert runner.reused == 8, "the state before the prompt's last token"
    prefilled(runner, PROMPT[:4])
    assert runner.reused == 0


def test_states_are_kept_of_a_few_turns_alone(runner: BlockRunner) -> None:
    text = PROMPT
    for turn in range(KEPT_STATES + 2):
        text = (*text, turn, 7)
        prefilled(runner, text)
        kept = [runner.cache.reachable(length) for length in range(len(text) + 1)]
        assert len({length for length in kept if 0 < length < len(text)}) <= KEPT_STATES
    assert runner.cache.reachable(len(text) - 1) == len(text) - 1


def test_a_reply_adds_nothing_to_the_state(runner: BlockRunner) -> None:
    def size() -> int:
        return sum(state.nbytes for state in chain(*runner.cache.recurrent_states().values()))

    before = size()
    for token in numbers(20, seed=4):
        after(runner, token)
        runner.commit((0,))
    assert size() == before


def test_the_cache_takes_what_is_estimated_from_the_config(runner: BlockRunner) -> None:
    shape = parse_config(json.dumps(runner.model.config.to_dict()).encode(), "tiny")
    rows = sum(state.nbytes for state in runner.cache.committed())
    states = sum(one.nbytes for one in runner.cache.recurrent_states()[runner.length])
    assert rows == len(PROMPT) * shape.cached * 4
    assert states == shape.state * 4


def shapes() -> set[tuple[int, ...]]:
    """Of all tensors that something keeps."""
    gc.collect()
    return {tuple(found.shape) for found in gc.get_objects() if isinstance(found, Tensor)}


@pytest.mark.parametrize("rows", [97, MAX_ROWS + 77])
def test_layers_keep_rows_until_the_commit_but_no_matrix_of_rows_and_no_chunk(
    runner: BlockRunner, rows: int
) -> None:
    before = shapes()
    runner.forward(chain_block(numbers(rows), runner.length, (0,)))
    new = {shape for shape in shapes() - before if len(shape) == 3}
    assert not [shape for shape in new if shape[1:] == (rows, rows)]
    if rows > MAX_ROWS:
        assert not [shape for shape in new if shape[2] >= rows]


def test_a_cache_is_not_rewound_to_a_length_without_a_state(runner: BlockRunner) -> None:
    assert runner.cache.is_recurrent
    assert not runner.is_rewindable
    with pytest.raises(ValueError, match="cannot rewind a cache of 9 rows to 5"):
        runner.rewind(5)


def test_a_prompts_chunk_is_no_tree(runner: BlockRunner) -> None:
    rows = MAX_ROWS + 1
    wide = Block((7,) * rows, (9,) * rows, (-1,) * rows, (0,))
    with pytest.raises(ValueError, match=f"a tree of at most {MAX_ROWS} rows, not {rows}"):
        runner.forward(wide)
