"""Which drafts are accepted, on trees small enough to walk by hand."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.engine.lookahead.draft_tree import DraftTree
from app.engine.lookahead.verification import AcceptedPath, verify
from app.engine.sampling.sampling import Choose
from tests.engine.lookahead.drafting import tree_of

CHAIN = tree_of(7, [(8, 9)], "prompt")
BRANCHES = tree_of(7, [(8, 9)], "prompt")
BRANCHES.add(1, 6, "window")
BRANCHES.add(0, 5, "output")


def saying(*tokens: int) -> Choose:
    """A model that goes on with these tokens behind 6 7, whatever the row."""
    return lambda _row, path: tokens[len(path) - 2]


def walked(tree: DraftTree, *tokens: int) -> AcceptedPath:
    return verify(tree, saying(*tokens), history=[6, 7])


def test_a_full_match_earns_the_models_own_next_token() -> None:
    assert walked(CHAIN, 8, 9, 4) == AcceptedPath((8, 9, 4), ("prompt", "prompt", "model"), rows=(0, 1, 2))


def test_the_second_branch_is_taken_and_its_rows_need_not_be_neighbours() -> None:
    assert walked(BRANCHES, 8, 6, 1) == AcceptedPath((8, 6, 1), ("prompt", "window", "model"), rows=(0, 1, 3))
    assert walked(BRANCHES, 5, 1) == AcceptedPath((5, 1), ("output", "model"), rows=(0, 4))


def test_each_token_is_drawn_in_its_own_row_with_the_path_that_leads_there() -> None:
    asked: list[tuple[int, tuple[int, ...]]] = []

    def choose(row: int, path: Sequence[int]) -> int:
        asked.append((row, tuple(path)))
        return (8, 6, 1)[len(path) - 2]

    verify(BRANCHES, choose, history=[6, 7])
    assert asked == [(0, (6, 7)), (1, (6, 7, 8)), (3, (6, 7, 8, 6))]


def test_the_history_is_left_as_it_was() -> None:
    history = [6, 7]
    verify(CHAIN, saying(8, 9, 4), history)
    assert history == [6, 7]


def test_it_is_so_too_where_the_model_cannot_be_asked_any_further() -> None:
    history = [6, 7]
    with pytest.raises(IndexError):
        verify(CHAIN, saying(8), history)
    assert history == [6, 7]


@given(
    drafts=st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=4), max_size=6),
    said=st.lists(st.integers(0, 2), min_size=5, max_size=5),
)
def test_whatever_was_drafted_the_tokens_are_the_models_own(drafts: list[list[int]], said: list[int]) -> None:
    tree = tree_of(7, drafts, "prompt")
    accepted = walked(tree, *said)
    assert list(accepted.tokens) == said[: len(accepted.tokens)]
    assert [tree.tokens[row] for row in accepted.rows[1:]] == said[: len(accepted.rows) - 1]
    assert len(accepted.tokens) == len(accepted.rows) == len(accepted.origins)
    assert len(accepted.tokens) == 1 + _longest_match(drafts, said)


def _longest_match(drafts: list[list[int]], said: list[int]) -> int:
    return max((n for draft in drafts for n in range(len(draft) + 1) if draft[:n] == said[:n]), default=0)
