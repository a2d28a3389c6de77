"""Every row has one owner, which has all that the row sees, and the ranks' answers are joined."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from app.engine.block.block import Block, chain_block
from app.engine.parallel.step_shares import (
    after_missed,
    answers_of,
    children_of,
    choices_of,
    depth_first,
    followed,
    split,
)
from app.engine.sampling.sampling import make_sampler
from app.values.messages import Sampling
from tests.tiers import examples


@st.composite
def trees(draw: st.DrawFn) -> Block:
    """Blocks below one current token at position 10, some rows of which are read."""
    parents, depths = [-1], [0]
    for row in range(1, draw(st.integers(1, 60))):
        parents.append(draw(st.integers(max(row - 9, 0), row - 1)))
        depths.append(depths[parents[row]] + 1)
    rows = range(len(parents))
    wanted = draw(st.lists(st.sampled_from(rows), unique=True))
    return Block(tuple(rows), tuple(10 + depth for depth in depths), tuple(parents), (0, *wanted))


def path(block: Block, row: int) -> list[tuple[int, int]]:
    """(token, position) of a row and of all that it sees."""
    found = list[tuple[int, int]]()
    while row >= 0:
        found.append((block.tokens[row], block.positions[row]))
        row = block.parents[row]
    return found


@given(trees(), st.lists(st.integers(0, 30), min_size=1, max_size=5))
@examples(200)
def test_each_wanted_row_is_answered_once_by_a_rank_that_has_what_it_sees(
    block: Block, missed: list[int]
) -> None:
    shares = split(block, missed)
    assert len(shares) == len(missed)
    places = [place for share in shares for place in share.in_block]
    assert sorted(places) == list(range(len(block.wanted)))
    for share in shares:
        for index, place in zip(share.own, share.in_block, strict=True):
            assert path(share.block, share.block.wanted[index]) == path(block, block.wanted[place])


@given(trees(), st.integers(1, 5))
@examples(100)
def test_no_rank_feeds_more_than_its_part_and_one_line_of_ancestors(block: Block, ranks: int) -> None:
    deepest = max(block.positions) - block.positions[0]
    assert max(len(share.block) for share in split(block, [0] * ranks)) <= -(-len(block) // ranks) + deepest


def test_a_rank_that_lags_far_behind_gets_no_rows() -> None:
    wide = Block(tuple(range(9)), (4, *[5] * 8), (-1, *[0] * 8), tuple(range(9)))
    assert [len(share.own) for share in split(wide, [0, 0])] == [5, 4]
    assert [len(share.own) for share in split(wide, [0, 50])] == [9, 0]
    assert [len(share.own) for share in split(wide, [0, 4])] == [7, 2]


def test_rows_are_read_depth_first_with_earlier_children_first() -> None:
    assert depth_first((-1, 0, 0, 1, 2, 1)) == [0, 1, 3, 5, 2, 4]


def test_a_text_is_followed_as_far_as_the_block_has_it() -> None:
    tree = Block((7, 8, 5, 9, 8), (3, 4, 4, 5, 4), (-1, 0, 0, 1, 0), (0,))
    assert followed(tree, [7, 8, 9, 6]) == [0, 1, 3]
    assert followed(tree, [7, 5, 9]) == [0, 2]
    assert followed(tree, [8]) == []
    assert children_of(tree)[0, 8] == 1, "of two rows that say the same the first"


def test_what_was_missed_is_fed_as_a_line_above_the_block() -> None:
    tree = Block((7, 8, 5), (3, 4, 4), (-1, 0, 0), (0, 2))
    assert after_missed((), tree) == tree
    assert after_missed((4, 6), tree) == Block((4, 6, 7, 8, 5), (1, 2, 3, 4, 4), (-1, 0, 1, 2, 2), (2, 4))
    assert after_missed((4,), chain_block((7,), 1, (0,))) == chain_block((4, 7), 0, (1,))


@pytest.mark.parametrize("sampling", [Sampling(), Sampling(0.8, seed=3)])
def test_ranks_sample_along_their_rows_what_one_would(sampling: Sampling) -> None:
    """The model says 1, 2, 3, ... behind any row; drafts 1, 2 and 1, 5 lie on two ranks."""
    tree = Block((0, 1, 9, 2, 5), (6, 7, 7, 8, 8), (-1, 0, 0, 1, 1), (0, 1, 2, 3, 4))
    logits = torch.full((5, 12), -40.0)
    for row, depth in enumerate((0, 1, 1, 2, 2)):
        logits[row, depth + 1], logits[row, depth + 2] = 40.0, 7.25
    sampler, joined = make_sampler(sampling), torch.zeros((5, 9), dtype=torch.int64)
    for share in split(tree, (0, 0)):
        rows = [tree.tokens.index(token) for token in share.block.tokens]
        answers = torch.from_numpy(answers_of(sampler, logits[rows], share.block))
        joined[list(share.in_block)] = answers[list(share.own)]
    choices = choices_of(joined.numpy(), 2)
    assert [choices.choose(row, ()) for row in (0, 1, 3)] == [1, 2, 3]
    assert choices.ids.tolist() == [[1, 2], [2, 3], [2, 3], [3, 4], [3, 4]]
    assert choices.logits[0].tolist() == [40.0, 7.25]
    with pytest.raises(LookupError, match="no rank sampled a token in row 2"):
        choices.choose(2, ())
