"""The lookahead branch alone: its shape, who sees whom in it, and how it moves."""

import pytest

from app.engine.block.block import Block
from app.engine.lookahead.jacobi_window import RETRY, STEPS, WORTH, JacobiWindow, WindowSizer
from tests.engine.lookahead.drafting import drawn


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


@pytest.mark.parametrize(
    ("price", "accepted", "steps", "next_columns"),
    {
        "it earns its price": (1 / (1.5 * WORTH), 1, 20 * STEPS, 3),
        "it earns far more": (0.01, 1, STEPS, 4),
        "it has no price and finds nothing": (0.0, 0, 10 * STEPS, 3),
        "it has no price": (0.0, 1, 10 * STEPS, 3),
    }.values(),
)
def test_a_window_stays_and_one_that_earns_far_more_gets_another_column_in_the_next_reply(
    price: float, accepted: int, steps: int, next_columns: int
) -> None:
    sizer = WindowSizer(3)
    window = window_of(sizer)
    settle(sizer, window, price=price, accepted=accepted, steps=steps)
    assert (window.width, sizer.columns) == (3, next_columns)


CURRENT = 100


def counting(width: int = 3, ngram: int = 4) -> JacobiWindow:
    """A window whose guesses say how many places they stand behind the current token."""
    return JacobiWindow(width, ngram, [CURRENT, *range(1, width + ngram - 2)])


def test_a_column_sees_the_first_row_up_to_itself_and_its_own_guesses_below() -> None:
    window = counting(width=3, ngram=4)
    rows = len(window.tokens()) + 1
    block = Block((0,) * rows, (0, *window.offsets()), (-1, *window.parents()), ())
    assert drawn(block.visible()) == [
        "1........",  # row 0: a line of text
        "11.......",
        "111......",
        "1..1.....",  # row 1: row 0 up to the column
        "11..1....",
        "111..1...",
        "1..1..1..",  # row 2: and the column's own guess in row 1
        "11..1..1.",
        "111..1..1",
    ]


def test_a_closed_window_adds_nothing_and_learns_nothing() -> None:
    window = JacobiWindow(0, 4, ())
    assert (window.tokens(), window.offsets(), window.top(), window.reach) == ([], [], [], 0)
    assert (window.columns(CURRENT), window.parents()) == ([], [])
    window.shift([])
    assert window.tokens() == []


def test_a_line_of_the_wrong_length_is_refused_with_both_lengths() -> None:
    with pytest.raises(ValueError, match="a window 3 wide needs a line of 5 tokens, not 2"):
        JacobiWindow(3, 4, [1, 2])


def test_a_narrower_window_keeps_its_first_columns() -> None:
    window = counting()
    window.narrow(2)
    assert window.rows == [[CURRENT, 1], [1, 2], [2, 3]]
    assert (window.width, window.size, window.reach) == (2, 5, 3)
    assert window.parents() == JacobiWindow(2, 4, [CURRENT, 1, 2, 3]).parents()
    window.shift([30, 40])
    assert window.columns(777) == [[777, 2, 30], [2, 3, 40]]


@pytest.mark.parametrize("width", [0, -1])
def test_narrowed_to_nothing_a_window_is_closed_for_good(width: int) -> None:
    window = counting()
    window.narrow(width)
    window.narrow(3)
    assert (window.width, window.size, window.reach, window.tokens(), window.top()) == (0, 0, 0, [], [])
    assert (window.columns(CURRENT), window.parents()) == ([], [])


@pytest.mark.parametrize(
    ("places", "rows", "width"), [(4, 8, 3), (3, 8, 0), (4, 7, 0), (100, 100, 3), (0, 0, 0), (-1, -1, 0)]
)
def test_a_window_that_does_not_fit_is_closed(places: int, rows: int, width: int) -> None:
    """Three columns and three levels reach four places ahead and take eight rows beside the current token."""
    window = counting()
    window.fit(places, rows)
    assert window.width == width
