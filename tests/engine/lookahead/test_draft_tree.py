"""Guesses merged into a tree below the current token."""

from app.engine.lookahead.draft_tree import DraftTree, grow_tree
from app.engine.lookahead.pool import Candidate
from tests.engine.lookahead.drawing import drawn

GUESSES = [Candidate((8, 9), "prompt"), Candidate((8, 6), "window"), Candidate((5,), "output")]


def test_a_shared_beginning_costs_one_row() -> None:
    tree = grow_tree(7, GUESSES, depth=2)
    assert tree.tokens == [7, 8, 9, 6, 5]
    assert tree.parents == [-1, 0, 1, 1, 0]
    assert tree.depths == [0, 1, 2, 2, 1]


def test_a_node_sees_its_ancestors_and_itself() -> None:
    assert drawn(grow_tree(7, GUESSES, depth=2).visible()) == [
        "1....",  # 7
        "11...",  # 7 8
        "111..",  # 7 8 9
        "11.1.",  # 7 8 6
        "1...1",  # 7 5
    ]


def test_a_shared_token_belongs_to_the_source_that_guessed_it_first() -> None:
    assert grow_tree(7, GUESSES, depth=2).origins == ["model", "prompt", "prompt", "window", "output"]


def test_guesses_are_cut_to_the_depth() -> None:
    assert grow_tree(7, GUESSES, depth=1).tokens == [7, 8, 5]
    assert grow_tree(7, GUESSES, depth=0).tokens == [7]


def test_without_guesses_only_the_current_token_is_left() -> None:
    tree = grow_tree(7, [], depth=3)
    assert (len(tree), tree.tokens, drawn(tree.visible())) == (1, [7], ["1"])


def test_the_same_token_behind_different_ones_is_two_nodes() -> None:
    tree = grow_tree(7, [Candidate((1, 5), "prompt"), Candidate((2, 5), "prompt")], depth=2)
    assert tree.tokens == [7, 1, 5, 2, 5]


def test_a_child_is_found_by_its_token() -> None:
    tree = grow_tree(7, GUESSES, depth=2)
    assert [tree.child(0, 8), tree.child(1, 6), tree.child(0, 6), tree.child(4, 8)] == [1, 3, None, None]


def test_adding_a_known_guess_adds_nothing() -> None:
    tree = DraftTree(7)
    assert [tree.add(0, 8, "prompt"), tree.add(0, 8, "window"), len(tree)] == [1, 1, 2]
