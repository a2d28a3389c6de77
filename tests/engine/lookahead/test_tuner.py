"""The tuner takes the rows with the largest worth, on step times made up so that they can be reckoned."""

from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.engine.lookahead.planning import DEEPEST
from app.engine.lookahead.tuner import MEMORY, REDRAW, WIDEST, Tuner
from app.engine.lookahead.window_share import WindowShare
from app.engine.step_times import StepTimes, Widths, padded_rows
from app.messages import Split

CHEAP = StepTimes((1, 32, 128), (0.010, 0.0101, 0.0105))
DEAR = StepTimes((1, 2, 128), (0.010, 0.020, 1.28))
STAIRS = StepTimes((1, 8, 9, 128), (0.010, 0.0101, 0.030, 0.040))
"""Up to eight rows cost next to nothing, the ninth two steps more."""
FADING = [0.9**node for node in range(128)]

MS = st.floats(0.5, 50).map(lambda ms: ms / 1000)
CURVES = st.dictionaries(st.integers(2, 128), MS, max_size=6).flatmap(
    lambda more: MS.map(
        lambda first: StepTimes((1, *sorted(more)), (first, *(more[width] for width in sorted(more))))
    )
)
REACHES = st.lists(st.floats(0, 1), max_size=60).map(lambda chances: [1.0, *sorted(chances, reverse=True)])


def tuner(times: StepTimes, widths: Widths = (), limit: int = 256) -> Tuner:
    return Tuner(times, widths, limit, WindowShare(3))


def fed(times: StepTimes, rows: int, widths: Widths = ()) -> float:
    """Seconds of a step of so many rows, reckoned anew."""
    return times.seconds_for(padded_rows(rows, widths))


@given(times=CURVES, reaches=REACHES, window=st.integers(0, 15))
def test_no_other_number_of_rows_is_worth_more(times: StepTimes, reaches: list[float], window: int) -> None:
    planner = tuner(times)
    reaches = reaches[: planner.plan(window).rows]
    speed = 1 / times.seconds_for(1)

    def worth(rows: int) -> float:
        widest = min(times.widths[-1], WIDEST)
        return sum(reaches[:rows]) - speed * fed(times, min(rows + window, widest))

    best = max(worth(rows) for rows in range(1, len(reaches) + 1))
    kept = planner.kept(reaches, window)
    assert worth(kept) == pytest.approx(best)
    assert all(worth(rows) < worth(kept) + 1e-9 for rows in range(1, kept))


@given(times=CURVES, reaches=REACHES, tokens=st.integers(1, 6), steps=st.integers(1, 10))
def test_a_second_is_worth_the_tokens_that_were_written_in_one(
    times: StepTimes, reaches: list[float], tokens: int, steps: int
) -> None:
    planner, cost = tuner(times), times.seconds_for(1)
    reaches = reaches[: planner.plan(0).rows]
    for _ in range(steps):
        planner.observe(1, tokens, cost)
    fading = [MEMORY**age for age in range(steps)]
    speed = (tokens * sum(fading) + MEMORY**steps) / (cost * (sum(fading) + MEMORY**steps))
    worths = [sum(reaches[:rows]) - speed * times.seconds_for(rows) for rows in range(1, len(reaches) + 1)]
    assert worths[planner.kept(reaches, 0) - 1] == pytest.approx(max(worths))


def test_the_drawing_of_the_module() -> None:
    """Steps of 2.0, 2.2 and 3.0 ms at 500 tokens a second: seven guesses of 0.1 pay, eight more of 0.03 do not."""
    planner = tuner(StepTimes((1, 8, 16), (0.0020, 0.0022, 0.0030)))
    assert planner.kept([1.0, *[0.1] * 7, *[0.03] * 8], 0) == 8
    assert planner.kept([1.0, *[0.1] * 7, *[0.08] * 8], 0) == 16


def test_where_rows_are_cheap_the_tree_is_wide_and_where_they_are_dear_there_is_none() -> None:
    assert tuner(CHEAP).kept(FADING, 0) > 40
    assert tuner(DEAR).kept(FADING, 0) == 1
    assert tuner(DEAR).kept([1.0, *[0.999] * 40], 0) == 1, "a second row costs a whole step"


def test_the_tree_ends_where_the_curve_rises() -> None:
    assert tuner(STAIRS).kept([1.0, *[0.05] * 20], 0) == 8
    assert tuner(STAIRS).kept([1.0, *[0.05] * 20], 3) == 5, "the window has three of the eight"


def test_a_faster_text_makes_time_dearer() -> None:
    planner = tuner(StepTimes((1, 128), (0.010, 0.030)))
    slow = planner.kept(FADING, 0)
    for _ in range(200):
        planner.observe(1, 6, 0.010)
    assert planner.kept(FADING, 0) < slow


@given(
    widths=st.sets(st.sampled_from((1, 4, 8, 16, 32, 64, 128)), min_size=1).map(lambda w: tuple(sorted(w)))
)
def test_padded_blocks_cost_what_their_width_costs(widths: Widths) -> None:
    times = StepTimes((1, 4, 8, 16, 32, 64, 128), (0.010, 0.011, 0.012, 0.014, 0.018, 0.026, 0.042))
    planner = tuner(times, widths, limit=widths[-1])
    speed = 1 / fed(times, 1, widths)
    assert planner.plan(0).rows == widths[-1]
    expected = list(accumulate(FADING[: widths[-1]]))
    best = max(
        range(1, widths[-1] + 1), key=lambda rows: expected[rows - 1] - speed * fed(times, rows, widths)
    )
    assert planner.kept(FADING[: widths[-1]], 0) == best
    assert best in widths, "padding costs the same as guesses"
    assert planner.split(best, 0).cost == pytest.approx(fed(times, best, widths) / fed(times, 1, widths))


@pytest.mark.parametrize(("limit", "rows"), [(256, 128), (64, 64), (1, 1)])
def test_no_tree_is_wider_than_the_limit_and_the_measured_curve(limit: int, rows: int) -> None:
    assert tuner(CHEAP, limit=limit).plan(0).rows == rows
    assert tuner(CHEAP, limit=limit).plan(rows + 7).rows == 1
    assert tuner(StepTimes((1, 8, 32), (0.01, 0.01, 0.01)), limit=limit).plan(0).rows == min(limit, 32)


def test_a_model_that_takes_one_row_at_a_time_is_decoded_plainly() -> None:
    planner = tuner(StepTimes((1,), (0.01,)), (1,), limit=1)
    assert (planner.plan(0).rows, planner.kept([1.0], 0), planner.split(1, 0)) == (1, 1, Split(1, 0, 1.0))


def test_the_dearer_a_row_the_likelier_a_guess_must_be_to_be_looked_at() -> None:
    floors = [tuner(times).plan(0).floor for times in (CHEAP, STAIRS, DEAR)]
    assert floors == sorted(floors)
    assert (floors[0], floors[2] > 0.2) == (0.002, True)
    assert tuner(DEAR).kept([1.0, *[floors[2]] * 3], 0) == 1, "and yet not all of them pay"
    assert tuner(CHEAP).plan(0).depth == DEEPEST


def test_real_steps_refine_the_curve() -> None:
    """On this machine eight rows turn out to cost three steps, where the curve at load said one."""
    planner = tuner(StepTimes((1, 8, 128), (0.010, 0.0101, 0.2)))
    reaches = [1.0, *[0.1] * 7]
    assert planner.kept(reaches, 0) == 8
    for _ in range(6 * REDRAW):
        planner.observe(8, 2, 0.030)
    assert planner.split(8, 0).cost == pytest.approx(3, rel=0.05)
    assert planner.kept(reaches, 0) == 1


def test_one_step_that_took_very_long_says_little() -> None:
    planner = tuner(CHEAP)
    before = planner.split(32, 0).cost
    planner.observe(32, 1, 60.0)
    for _ in range(REDRAW):
        planner.observe(1, 1, 0.010)
    assert planner.split(32, 0).cost == pytest.approx(before, rel=0.06)


def test_a_padded_step_refines_the_width_that_was_fed() -> None:
    times = StepTimes((1, 16, 24, 32), (0.010, 0.011, 0.012, 0.013))
    planner = tuner(times, (16, 32), limit=32)
    for _ in range(6 * REDRAW):
        planner.observe(20, 1, 0.026)
    assert planner.split(32, 0).cost == pytest.approx(0.026 / 0.011, rel=0.05)


def test_the_windows_price_is_the_time_of_its_rows_in_tokens() -> None:
    planner = tuner(StepTimes((1, 101), (0.010, 0.030)))
    assert planner.price([1.0] * 11, 10) == pytest.approx(0.002 * 100)
    assert planner.price([1.0] * 11, 0) == 0.0


def test_a_split_tells_the_cost_against_one_row() -> None:
    assert tuner(STAIRS).split(6, 2) == Split(6, 2, pytest.approx(1.01))
