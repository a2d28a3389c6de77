"""What the tuner believes that steps cost: never less for more rows, and nearer the truth with every step."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.engine.lookahead.step_curve import HOST, HOST_ROW, REDRAW, WIDEST, StepCurve, ascending
from app.engine.step_times import StepTimes, Widths, padded_rows

TIMES = StepTimes((1, 8, 16, 64), (0.010, 0.011, 0.013, 0.040))
SECONDS = st.lists(st.floats(0.001, 1), min_size=1, max_size=12)


def test_a_drafted_step_costs_its_pass_and_the_hosts_share() -> None:
    curve = StepCurve(TIMES, ())
    assert curve.seconds[8] == pytest.approx(0.011 + HOST + 8 * HOST_ROW)
    assert curve.seconds[40] == pytest.approx(0.0265 + HOST + 40 * HOST_ROW)
    assert (len(curve.seconds), curve.widest) == (65, 64)


def test_a_plain_step_has_no_such_share() -> None:
    assert StepCurve(TIMES, ()).plain == 0.010
    assert StepCurve(TIMES, (8, 16)).plain == 0.011, "padded it costs its width"


@pytest.mark.parametrize("padded", [(), (8, 16), (16, 64)])
def test_what_is_padded_costs_as_much_as_the_width_that_is_fed(padded: Widths) -> None:
    curve, free = StepCurve(TIMES, padded), StepCurve(TIMES, ())
    assert curve.seconds[1:] == [
        free.seconds[padded_rows(rows, padded)] for rows in range(1, curve.widest + 1)
    ]


@pytest.mark.parametrize(
    ("times", "padded", "widest"),
    [
        (TIMES, (), 64),
        (TIMES, (8, 16), 16),
        (StepTimes((1,), (0.01,)), (), 1),
        (StepTimes((1, 500), (0.01, 0.02)), (), WIDEST),
    ],
)
def test_no_block_is_wider_than_was_measured_or_than_can_be_padded(
    times: StepTimes, padded: Widths, widest: int
) -> None:
    curve = StepCurve(times, padded)
    assert (curve.widest, len(curve.seconds)) == (widest, widest + 1)


@given(seconds=SECONDS)
def test_times_never_fall_with_rows_and_keep_their_sum(seconds: list[float]) -> None:
    straight = ascending(seconds)
    assert straight == sorted(straight)
    assert sum(straight) == pytest.approx(sum(seconds))
    assert ascending(sorted(seconds)) == sorted(seconds)


def test_neighbours_out_of_order_share_their_mean() -> None:
    assert ascending([1.0, 5.0, 3.0, 7.0]) == [1.0, 4.0, 4.0, 7.0]
    assert ascending([9.0, 3.0, 3.0, 5.0]) == [5.0] * 4


def test_real_steps_bring_the_curve_to_what_they_took() -> None:
    curve = StepCurve(TIMES, ())
    for _ in range(6 * REDRAW):
        curve.refine(7, 0.012)
    assert curve.seconds[8] == pytest.approx(0.012, rel=0.01)
    assert curve.seconds[64] == StepCurve(TIMES, ()).seconds[64], "nothing was seen there"
    assert curve.plain == 0.010


def test_one_step_that_took_very_long_says_little() -> None:
    curve = StepCurve(TIMES, ())
    before = curve.seconds[64]
    for _ in range(REDRAW):
        curve.refine(1, 0.010)
    curve.refine(64, 60.0)
    for _ in range(REDRAW):
        curve.refine(1, 0.010)
    assert before < curve.seconds[64] <= before * 1.06


def test_a_padded_step_refines_the_width_that_was_fed() -> None:
    curve = StepCurve(TIMES, (8, 64))
    for _ in range(6 * REDRAW):
        curve.refine(9, 0.070)
    assert curve.seconds[64] == pytest.approx(0.070, rel=0.05)
    assert curve.seconds[8] == StepCurve(TIMES, (8, 64)).seconds[8]


def test_plain_steps_are_refined_apart() -> None:
    curve = StepCurve(TIMES, ())
    for _ in range(100):
        curve.refine_plain(0.012)
    assert curve.plain == pytest.approx(0.012, rel=0.01)
    assert curve.seconds == StepCurve(TIMES, ()).seconds


@given(
    seconds=st.lists(st.floats(0.001, 1), min_size=4, max_size=4),
    padded=st.sampled_from([(), (8, 16), (64,)]),
)
def test_no_row_is_cheaper_than_the_cheapest(seconds: list[float], padded: Widths) -> None:
    curve = StepCurve(StepTimes(TIMES.widths, tuple(seconds)), padded)
    for rows in range(2, curve.widest + 1):
        assert curve.seconds[rows] >= curve.seconds[1] + (rows - 1) * curve.cheapest_row - 1e-12
    assert StepCurve(StepTimes((1,), (0.01,)), ()).cheapest_row == 0.0
