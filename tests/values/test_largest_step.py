"""The rows that settings promise are the rows that the engine's own planner and window take."""

from hypothesis import given
from hypothesis import strategies as st

from app.engine.decoders.lookahead_decoder import lay_out
from app.engine.lookahead.draft_tree import DraftTree
from app.engine.lookahead.jacobi_window import JacobiWindow
from app.engine.lookahead.row_planner import FixedSizesPlanner
from app.values.largest_step import StepRows, largest_step
from app.values.messages import Decoding


def test_the_worked_case() -> None:
    rows = largest_step(Decoding("lookahead", window=5, ngram=4, guesses=5))
    assert rows == StepRows(tree=16, window=14, read=21)
    assert rows is not None and rows.total == 30


@given(st.integers(0, 20), st.integers(2, 7), st.integers(0, 20))
def test_the_engine_takes_what_is_promised(width: int, ngram: int, guesses: int) -> None:
    decoding = Decoding("lookahead", window=width, ngram=ngram, guesses=guesses)
    promised = largest_step(decoding)
    assert promised is not None
    window = JacobiWindow(width, ngram, [0] * max(width + ngram - 2, 0))
    assert promised.window == window.size
    assert promised.tree == FixedSizesPlanner(decoding).plan(window.size).rows
    block, _ = lay_out(DraftTree([1]), window, 9)
    assert len(block.wanted) == promised.read - (promised.tree - 1)


def test_other_decoders() -> None:
    assert largest_step(Decoding("plain")) == StepRows(1, 0, 1)
    assert largest_step(Decoding("jacobi", window=7)) == StepRows(1, 7, 8)
    assert largest_step(Decoding("prompt-lookup")) == StepRows(11, 0, 11)
    assert largest_step(Decoding("auto", rows=24)) == StepRows(24, 0, 24)
