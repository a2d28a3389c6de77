"""Guesses merged into a tree below the current token."""

from hypothesis import given
from hypothesis import strategies as st

from app.engine.lookahead.draft_tree import DraftTree
from tests.engine.lookahead.drafting import tree_of

GUESSES = ((8, 9), (8, 6), (5,))
LINES = st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=4), max_size=8)


def grown() -> DraftTree:
    """The tree of the module's drawing, best first, each guess by another source."""
    tree = DraftTree([7])
    eight = tree.add(0, 8, "prompt", 0.8)
    tree.add(eight, 9, "history", 0.4)
    tree.add(0, 5, "output", 0.15)
    tree.add(eight, 6, "window", 0.08)
    return tree


def test_a_shared_beginning_costs_one_row() -> None:
    tree = tree_of(7, GUESSES, "prompt")
    assert tree.tokens == [7, 8, 9, 6, 5]
    assert tree.parents == [-1, 0, 1, 1, 0]
    assert tree.depths == [0, 1, 2, 2, 1]


def test_a_shared_token_belongs_to_the_source_that_guessed_it_first() -> None:
    tree = grown()
    assert tree.add(0, 8, "document", 0.9) == 1
    assert (tree.origins[1], tree.reaches[1], len(tree)) == ("prompt", 0.8, 5)


def test_cut_short_a_tree_loses_its_last_nodes_and_forgets_them_as_children() -> None:
    tree = grown()
    tree.cut(3)
    assert (tree.tokens, tree.parents, tree.depths) == ([7, 8, 9], [-1, 0, 1], [0, 1, 2])
    assert (tree.origins, tree.reaches) == (["model", "prompt", "history"], [1.0, 0.8, 0.4])
    assert (tree.child(0, 5), tree.child(1, 6), tree.child(1, 9)) == (None, None, 2)
    assert tree.add(0, 5, "window") == 3, "it may be guessed again"


def test_the_current_token_cannot_be_cut_off() -> None:
    for size in (1, 0, -3):
        tree = grown()
        tree.cut(size)
        assert (tree.tokens, tree.child(0, 8)) == ([7], None)


@given(lines=LINES, size=st.integers(1, 20))
def test_a_cut_tree_is_the_tree_that_was_grown_so_far(lines: list[list[int]], size: int) -> None:
    whole, cut = tree_of(7, lines, "prompt"), tree_of(7, lines, "prompt")
    cut.cut(size)
    assert len(cut) == min(size, len(whole))
    assert (cut.tokens, cut.parents) == (whole.tokens[:size], whole.parents[:size])
    assert all(parent < node for node, parent in enumerate(cut.parents))
    for node in range(1, len(cut)):
        assert cut.child(cut.parents[node], cut.tokens[node]) == node


def test_the_context_of_a_node_is_the_text_and_the_path_to_it() -> None:
    tree = tree_of(7, [(8, 9, 4), (5,)], "prompt")
    assert tree.contexts([1, 2, 3, 6, 7]) == [
        [2, 3, 6, 7],
        [3, 6, 7, 8],
        [6, 7, 8, 9],
        [7, 8, 9, 4],
        [3, 6, 7, 5],
    ]
