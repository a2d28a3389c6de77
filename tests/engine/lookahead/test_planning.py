"""Fixed sizes stay fixed; a row budget holds on average over the reply."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.engine.lookahead.jacobi_window import STEPS, JacobiWindow, WindowSizer
from app.engine.lookahead.planning import MIN_ROWS_FOR_WINDOW, FixedSizesPlanner, RowBudgetPlanner
from app.values.messages import PRESETS, Decoding, Preset, Split
from tests.engine.lookahead.deciding import drafted

REACHES = [1.0, 0.5, 0.25, 0.1]


def fixed(window: int = 5, ngram: int = 4, guesses: int = 5) -> FixedSizesPlanner:
    return FixedSizesPlanner(Decoding("lookahead", window, ngram, guesses))


def budget(rows: int, columns: int = 3) -> RowBudgetPlanner:
    return RowBudgetPlanner(rows, WindowSizer(columns))


@pytest.mark.parametrize(("preset", "rows"), [("7b", 61), ("13b", 41), ("33b", 29)])
def test_fixed_sizes_give_the_tree_the_rows_of_g_guesses(preset: Preset, rows: int) -> None:
    window, ngram, _ = PRESETS[preset]
    planner = fixed(*PRESETS[preset])
    plan = planner.plan(window * (ngram - 1) - 1)
    assert (plan.rows, plan.depth) == (rows, ngram - 1)
    assert (planner.sizer.columns, planner.ngram) == (window, ngram)


def test_without_guesses_there_is_the_current_token_alone() -> None:
    assert fixed(guesses=0).plan(9).rows == 1


def test_a_fixed_tree_is_kept_whole_and_the_window_costs_nothing() -> None:
    planner = fixed()
    before = planner.plan(14)
    split = planner.observe(drafted(200, reaches=REACHES, window=JacobiWindow(5, 4, [0] * 7)))
    assert planner.kept(REACHES, 14) == 4
    assert (planner.plan(0), split) == (before, Split(4, 14))


def test_a_window_that_the_person_chose_is_never_dropped() -> None:
    planner, window = fixed(window=3), JacobiWindow(3, 4, [0] * 5)
    for _ in range(100):
        planner.observe(drafted(9, reaches=REACHES, window=window))
    assert (window.width, planner.sizer.columns) == (3, 3)


def test_a_budget_is_shared_by_window_and_tree() -> None:
    planner = budget(32)
    assert (planner.plan(0).rows, planner.plan(5).rows) == (32, 27)
    assert planner.kept(REACHES, 5) == 4
    assert planner.observe(drafted(9, reaches=REACHES, window=JacobiWindow(3, 3, [0] * 4))) == Split(4, 5)


def test_however_wide_the_window_there_is_room_for_the_current_token() -> None:
    assert budget(16).plan(15).rows == budget(16).plan(40).rows == 1


@pytest.mark.parametrize("rows", [16, 24, 32, 64])
def test_two_thirds_of_the_budget_are_the_trees(rows: int) -> None:
    planner = budget(rows, columns=8)
    columns = planner.columns
    window = JacobiWindow(columns, planner.ngram, range(columns + planner.ngram - 2))
    assert 3 * window.size <= rows
    assert planner.plan(window.size).rows == rows - window.size


def test_a_small_budget_has_no_window() -> None:
    assert budget(MIN_ROWS_FOR_WINDOW - 1).sizer.columns == 0
    assert budget(MIN_ROWS_FOR_WINDOW).sizer.columns == 3


def test_what_a_step_leaves_over_the_later_ones_may_take() -> None:
    planner = budget(20)
    planner.observe(drafted(4))
    assert planner.plan(0).rows == 24, "a quarter of the 16 rows that were left"
    for _ in range(20):
        planner.observe(drafted(1))
    assert planner.plan(0).rows == 40, "at most twice the budget"


@pytest.mark.parametrize(("from_window", "columns"), [(0, 2), (8, 2), (18, 3), (40, 4)])
def test_a_window_row_is_worth_as_much_as_the_trees_last_one(from_window: int, columns: int) -> None:
    """5 rows cost 0.5 tokens a step: 8 in 16 steps, and a token from the window pays for half of one."""
    planner, window = budget(32), JacobiWindow(3, 3, [0] * 4)
    for step in range(STEPS):
        earned = from_window if step == 0 else 0
        planner.observe(drafted(9, reaches=REACHES, window=window, from_window=earned))
    assert planner.sizer.columns == columns


@given(
    rows=st.integers(1, 256),
    columns=st.integers(0, 8),
    found=st.lists(st.integers(1, 600), min_size=1, max_size=80),
)
def test_the_mean_is_never_above_the_budget(rows: int, columns: int, found: list[int]) -> None:
    """Whatever a step finds to guess, and with the widest window of the planner's own."""
    planner = budget(rows, columns)
    window = JacobiWindow(
        planner.sizer.columns, planner.ngram, [0] * (planner.sizer.columns + planner.ngram - 2)
    )
    window.fit(1000, rows - 1)
    fed = []
    for nodes in found:
        plan = planner.plan(window.size)
        fed.append(min(nodes, plan.rows) + window.size)
        assert 1 <= fed[-1] <= 2 * rows
        planner.observe(drafted(fed[-1]))
        assert sum(fed) <= rows * len(fed)
