"""What the tuner believes that steps cost: never less for more rows, and nearer the truth with every step."""

from operator import mul

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.engine.block.step_profile import Buckets, StepTimes, bucket_for
from app.engine.lookahead.step_time_curve import (
    HOST,
    HOST_ROW,
    LARGEST_BUCKET,
    PROOF,
    ROUND,
    STALE,
    StepTimeCurve,
    ascending,
)

TIMES = StepTimes((1, 8, 16, 64), (0.010, 0.011, 0.013, 0.040))


def test_a_drafted_step_costs_its_pass_and_the_hosts_share() -> None:
    curve = StepTimeCurve(TIMES, ())
    assert curve.seconds[8] == pytest.approx(0.011 + HOST + 8 * HOST_ROW)
    assert curve.seconds[40] == pytest.approx(0.0265 + HOST + 40 * HOST_ROW)
    assert (len(curve.seconds), curve.largest) == (65, 64)


@pytest.mark.parametrize("padded", [(), (8, 16), (16, 64)])
def test_what_is_padded_costs_as_much_as_the_width_that_is_fed(padded: Buckets) -> None:
    curve, free = StepTimeCurve(TIMES, padded), StepTimeCurve(TIMES, ())
    assert curve.seconds[1:] == [
        free.seconds[bucket_for(rows, padded)] for rows in range(1, curve.largest + 1)
    ]


LONG = StepTimes((1, 8, 16, 64), (0.010, 0.011, 0.013, 0.040), (1e-6, 3e-6, 5e-6, 20e-6))


def test_in_a_long_chat_each_row_costs_what_it_takes_to_attend_to_its_tokens() -> None:
    curve = StepTimeCurve(LONG, ())
    assert (curve.plain, curve.seconds) == (0.010, StepTimeCurve(TIMES, ()).seconds)
    curve.move_to(1000)
    assert curve.plain == pytest.approx(0.011)
    assert curve.seconds[16] == pytest.approx(0.013 + HOST + 16 * HOST_ROW + 0.005)
    curve.move_to(0)
    assert curve.seconds == StepTimeCurve(TIMES, ()).seconds


def test_what_a_long_chat_costs_is_no_lesson_about_short_ones() -> None:
    curve = StepTimeCurve(LONG, ())
    curve.move_to(1000)
    before, expected = curve.shape, curve.seconds[16]
    for _ in range(ROUND):
        curve.refine_plain(0.011)
        curve.refine(16, expected)
    assert curve.shape.plain == pytest.approx(before.plain)
    assert curve.shape.drafted == pytest.approx(before.drafted)


@pytest.mark.parametrize(
    ("times", "padded", "largest"),
    [
        (TIMES, (), 64),
        (TIMES, (8, 16), 16),
        (StepTimes((1,), (0.01,)), (), 1),
        (StepTimes((1, 500), (0.01, 0.02)), (), LARGEST_BUCKET),
    ],
)
def test_no_block_is_wider_than_was_measured_or_than_can_be_padded(
    times: StepTimes, padded: Buckets, largest: int
) -> None:
    curve = StepTimeCurve(times, padded)
    assert (curve.largest, len(curve.seconds)) == (largest, largest + 1)


@given(pairs=st.lists(st.tuples(st.floats(0.001, 1), st.integers(1, 20)), min_size=1, max_size=12))
def test_times_never_fall_with_rows_and_keep_their_weighted_sum(pairs: list[tuple[float, int]]) -> None:
    seconds, weights = [second for second, _ in pairs], [weight for _, weight in pairs]
    straight = ascending(seconds, weights)
    assert straight == sorted(straight)
    assert sum(map(mul, straight, weights)) == pytest.approx(sum(map(mul, seconds, weights)))
    assert ascending(sorted(seconds), weights) == sorted(seconds)


@pytest.mark.parametrize(
    ("buckets", "rows", "fed", "seconds"),
    [((), 8, 8, 0.012), ((8, 64), 9, 64, 0.07)],
    ids=["as fed", "padded"],
)
def test_real_steps_bring_the_width_that_was_fed_to_what_they_took(
    buckets: tuple[int, ...], rows: int, fed: int, seconds: float
) -> None:
    """Eight rows turn out to cost 1.2 plain steps, where the curve at load said 1.1."""
    curve = StepTimeCurve(TIMES, buckets)
    for _ in range(6 * ROUND):
        curve.refine(rows, seconds)
        curve.refine_plain(0.010)
    assert curve.seconds[fed] / curve.plain == pytest.approx(seconds / 0.010, rel=0.01)


def test_steps_between_two_measured_widths_are_held_against_the_line_between_them() -> None:
    curve = StepTimeCurve(TIMES, ())
    before = list(curve.seconds)
    for _ in range(4 * ROUND):
        for rows in (12, 16, 40, 64):
            curve.refine(rows, before[rows])
    assert curve.seconds == pytest.approx(before)


@pytest.mark.parametrize("factor", [0.5, 1.5, 3.0])
def test_a_machine_that_slows_down_changes_nothing(factor: float) -> None:
    """Every step takes longer alike, so the costs against each other stay, also of a width that was not seen."""
    curve, before = StepTimeCurve(TIMES, ()), StepTimeCurve(TIMES, ())
    for _ in range(20 * ROUND):
        for rows in (1, 8, 16):
            curve.refine(rows, before.seconds[rows] * factor)
        curve.refine_plain(before.plain * factor)
    for rows in (1, 8, 16, 64):
        assert curve.seconds[rows] / curve.plain == pytest.approx(
            before.seconds[rows] / before.plain, rel=0.1
        )


def test_one_step_that_took_very_long_says_little() -> None:
    curve = StepTimeCurve(TIMES, ())
    for _ in range(ROUND):
        curve.refine(64, curve.seconds[64])
        curve.refine_plain(curve.plain)
    before = curve.seconds[64] / curve.plain
    curve.refine(64, 60.0)
    for _ in range(ROUND):
        curve.refine_plain(curve.plain)
    assert curve.seconds[64] / curve.plain <= before * 1.3


def test_a_curve_is_proven_by_steps_that_draft_and_only_for_a_time() -> None:
    curve = StepTimeCurve(TIMES, ())
    for _ in range(PROOF):
        assert curve.is_unproven
        curve.refine(1, 0.01)
        curve.refine(8, 0.012)
    assert not curve.is_unproven
    for _ in range(STALE + 1):
        curve.refine_plain(0.01)
    assert curve.is_unproven
    curve.refine(2, 0.011)
    assert not curve.is_unproven


def test_a_shape_that_was_kept_is_a_curve_again() -> None:
    curve = StepTimeCurve(TIMES, (8, 64))
    for _ in range(ROUND):
        curve.refine(30, 0.080)
        curve.refine_plain(0.02)
    again = StepTimeCurve(TIMES, (8, 64), curve.shape)
    assert again.seconds == pytest.approx(curve.seconds, rel=0.01)
    assert (again.shape, again.is_unproven) == (curve.shape, False)
