"""What a step of so many rows costs, and which class of widths is chosen."""

import pytest

from app.engine.block.step_profile import Buckets, StepProfile, StepTimes, bucket_for, choose_buckets

TIMES = StepTimes((1, 4, 16, 32), (3.0, 3.3, 4.5, 5.3))


@pytest.mark.parametrize(
    ("rows", "seconds"), [(1, 3.0), (2, 3.1), (4, 3.3), (10, 3.9), (32, 5.3), (64, 6.9), (0, 3.0)]
)
def test_between_measured_widths_the_cost_lies_on_a_line(rows: int, seconds: float) -> None:
    assert TIMES.seconds_for(rows) == pytest.approx(seconds)


def test_a_line_that_falls_never_falls_below_what_was_measured() -> None:
    assert StepTimes((1, 4), (3.0, 2.0)).seconds_for(100) == 2.0


@pytest.mark.parametrize(
    ("buckets", "seconds"), [((1, 2), (1.0,)), ((2, 1), (1.0, 1.0)), ((0,), (1.0,)), ((1,), (0.0,))]
)
def test_impossible_times_are_refused(buckets: Buckets, seconds: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match=r", not \("):
        StepTimes(buckets, seconds)


def test_a_step_costs_as_many_plain_ones_as_its_padded_rows_take_longer() -> None:
    profile = StepProfile(TIMES, TIMES)
    assert profile.cost((), 1) == profile.cost((4, 16), 3) == profile.cost((4, 16), 4) == 1.0
    assert profile.cost((), 16) == pytest.approx(1.5)
    assert profile.cost((4, 16), 5) == profile.cost((4, 16), 99) == pytest.approx(4.5 / 3.3)
    assert StepProfile().cost((), 8) == 0.0


@pytest.mark.parametrize("bucket_sets", [((),), ((4, 1),), ((8,),)])
def test_a_class_of_widths_that_were_not_measured_is_refused(bucket_sets: tuple[Buckets, ...]) -> None:
    with pytest.raises(ValueError, match="a bucket set needs measured buckets"):
        StepProfile(TIMES, TIMES, bucket_sets)


@pytest.mark.parametrize(("rows", "padded"), [(1, 4), (4, 4), (5, 16), (16, 16)])
def test_a_block_gets_the_narrowest_width_that_holds_it(rows: int, padded: int) -> None:
    assert bucket_for(rows, (4, 16)) == padded
    assert bucket_for(rows, ()) == rows


def test_a_block_that_is_too_wide_for_all_widths_is_refused() -> None:
    with pytest.raises(ValueError, match="at most 16 rows here, not 17"):
        bucket_for(17, (4, 16))


def test_the_class_with_most_widths_is_chosen_however_the_clock_ran() -> None:
    for seconds in ((3.0, 3.3, 4.5, 5.3), (3.0, 3.1, 5.0, 4.8), (3.3, 3.0, 4.0, 6.0)):
        times = StepTimes(TIMES.buckets, seconds)
        assert choose_buckets(StepProfile(times, times, ((1,), (4, 16), (32,)))) == (4, 16)


def test_a_class_that_promises_far_more_is_worth_fewer_widths() -> None:
    assert choose_buckets(StepProfile(TIMES, TIMES, ((1, 4), (32,)))) == (1, 4)
    wide_is_fast = StepTimes(TIMES.buckets, (6.0, 6.0, 3.0, 3.0))
    assert choose_buckets(StepProfile(wide_is_fast, wide_is_fast, ((1, 4), (32,)))) == (32,)


def test_between_the_measured_widths_times_lie_on_a_line() -> None:
    times = StepTimes((1, 4, 8), (1.0, 4.0, 6.0), (0.1, 0.4, 0.2)).at((1, 2, 6, 16))
    assert times.buckets == (1, 2, 6, 16)
    assert times.seconds == pytest.approx((1.0, 2.0, 5.0, 10.0))
    assert times.per_token == pytest.approx((0.1, 0.2, 0.3, 0.2))
    assert StepTimes((1, 4), (1.0, 4.0)).at((2,)) == StepTimes((2,), (2.0,))
