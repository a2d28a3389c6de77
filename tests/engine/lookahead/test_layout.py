"""One block of a small tree and a small window, written out."""

from app.engine.lookahead.decoder import lay_out
from app.engine.lookahead.draft_tree import DraftTree
from app.engine.lookahead.jacobi_window import JacobiWindow
from tests.engine.lookahead.drafting import tree_of
from tests.engine.lookahead.drawing import drawn

TREE = tree_of(7, [(8, 9), (5,)], "prompt")
WINDOW = JacobiWindow(2, 3, [7, 21, 22])


def test_drafts_come_first_then_the_windows_guesses() -> None:
    block = lay_out(TREE, WINDOW, position=10).block
    #                       current  drafts   window: row 0, row 1
    assert block.tokens == (7, 8, 9, 5, 21, 21, 22)
    assert block.positions == (10, 11, 12, 11, 11, 11, 12)


def test_the_two_branches_share_the_current_token_and_nothing_else() -> None:
    assert drawn(lay_out(TREE, WINDOW, position=10).block.visible()) == [
        "1......",  # 7, the current token
        "11.....",  # 8
        "111....",  # 9
        "1..1...",  # 5
        "1...1..",  # row 0, column 1
        "1....1.",  # row 1, column 0
        "1...1.1",  # row 1, column 1
    ]


def test_logits_are_wanted_for_the_tree_and_the_top_row_alone() -> None:
    layout = lay_out(TREE, WINDOW, position=10)
    assert layout.block.wanted == (0, 1, 2, 3, 5, 6)
    assert [layout.block.wanted[place] for place in range(4, 6)] == [5, 6]
    assert layout.top == slice(4, 6)


def test_in_a_window_of_bigrams_the_current_token_is_read_for_both_branches() -> None:
    layout = lay_out(TREE, JacobiWindow(2, 2, [7, 21]), position=10)
    assert layout.block.tokens == (7, 8, 9, 5, 21)
    assert (layout.block.wanted, layout.top) == ((0, 1, 2, 3, 0, 4), slice(4, 6))


def test_without_drafts_and_window_the_block_is_plain_decoding() -> None:
    layout = lay_out(DraftTree(7), JacobiWindow(0, 4, ()), position=10)
    assert (layout.block.tokens, layout.block.positions, layout.block.wanted) == ((7,), (10,), (0,))
    assert (drawn(layout.block.visible()), layout.top) == (["1"], slice(1, 1))
