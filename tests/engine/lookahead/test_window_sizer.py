"""Columns that do not earn their rows are dropped; one that earns twice its price gets company."""

import pytest

from app.engine.lookahead.jacobi_window import MOST_COLUMNS, RETRY, STEPS, WORTH, JacobiWindow, WindowSizer


def window_of(sizer: WindowSizer, ngram: int = 3) -> JacobiWindow:
    return JacobiWindow(sizer.columns, ngram, [0] * (sizer.columns + ngram - 2))


def settle(sizer: WindowSizer, window: JacobiWindow, price: float, accepted: int, steps: int = STEPS) -> None:
    for _ in range(steps):
        sizer.settle(window, price, accepted)


def test_a_window_that_earns_nothing_loses_a_column_every_few_steps() -> None:
    sizer = WindowSizer(3)
    window = window_of(sizer)
    settle(sizer, window, price=0.1, accepted=0, steps=STEPS - 1)
    assert window.width == 3
    widths = list[int]()
    for _ in range(4):
        settle(sizer, window, price=0.1, accepted=0, steps=1 if not widths else STEPS)
        widths.append(window.width)
    assert widths == [2, 1, 0, 0]
    assert sizer.columns == 0


def test_a_window_that_never_paid_is_tried_again_every_few_replies() -> None:
    assert [WindowSizer(3).begin_reply() for _ in range(2)] == [3, 3]
    sizer = WindowSizer(0)
    assert [sizer.begin_reply() for _ in range(2 * RETRY)] == ([0] * (RETRY - 1) + [1]) * 2


def test_a_window_that_earns_its_price_stays() -> None:
    sizer = WindowSizer(3)
    window = window_of(sizer)
    settle(sizer, window, price=1 / (1.5 * WORTH), accepted=1, steps=20 * STEPS)
    assert (window.width, sizer.columns) == (3, 3)


def test_a_window_that_earns_far_more_gets_another_column_in_the_next_reply() -> None:
    sizer = WindowSizer(3)
    window = window_of(sizer)
    settle(sizer, window, price=0.01, accepted=1)
    assert (window.width, sizer.columns) == (3, 4), "this reply's window keeps its size"


def test_there_are_never_more_columns_than_the_most() -> None:
    sizer = WindowSizer(3)
    for _ in range(20):
        settle(sizer, window_of(sizer), price=0.01, accepted=1)
    assert sizer.columns == MOST_COLUMNS


@pytest.mark.parametrize("accepted", [0, 1])
def test_a_window_without_a_price_stays_as_it_is(accepted: int) -> None:
    sizer = WindowSizer(5)
    window = window_of(sizer)
    settle(sizer, window, price=0.0, accepted=accepted, steps=10 * STEPS)
    assert (window.width, sizer.columns) == (5, 5)


def test_a_closed_window_settles_nothing() -> None:
    sizer = WindowSizer(3)
    settle(sizer, JacobiWindow(0, 3, ()), price=9.0, accepted=0, steps=10 * STEPS)
    assert sizer.columns == 3


def test_old_earnings_fade() -> None:
    sizer = WindowSizer(4)
    window = window_of(sizer)
    settle(sizer, window, price=0.1, accepted=1, steps=4 * STEPS)
    settle(sizer, window, price=0.1, accepted=0, steps=8 * STEPS)
    assert window.width < 4
