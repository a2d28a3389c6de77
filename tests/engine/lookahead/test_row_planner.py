"""Fixed sizes stay fixed, a row budget holds on average over the reply, and the tuner takes the rows that pay."""

from itertools import accumulate
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.engine.block.block import MAX_DEPTH
from app.engine.block.step_profile import Buckets, StepTimes
from app.engine.lookahead.jacobi_window import STEPS, WORTH, JacobiWindow, WindowSizer
from app.engine.lookahead.row_planner import (
    CHECK_SOON,
    FLOOR,
    MEMORY,
    PATIENCE,
    SPARE,
    TRIAL,
    TUNED_MIN_REACH,
    ChainTuner,
    FixedSizesPlanner,
    RowBudgetPlanner,
    Tuner,
)
from app.engine.lookahead.step_time_curve import PROOF, ROUND, STALE, CurveShape, StepTimeCurve
from app.values.messages import PRESETS, Decoding, Preset, Split
from tests.engine.lookahead.deciding import drafted

# A second a step: the host's share of a drafted one is nothing beside it.
CHEAP = StepTimes((1, 32, 128), (1.0, 1.01, 1.05))
DEAR = StepTimes((1, 2, 128), (1.0, 2.0, 128.0))
STAIRS = StepTimes((1, 8, 9, 128), (1.0, 1.01, 3.0, 4.0))
"""Up to eight rows cost next to nothing, the ninth two steps more."""
FADING = [0.9**node for node in range(128)]
HOPELESS = [1.0, *[1e-3] * 10]

CURVES = st.builds(
    lambda buckets, seconds: StepTimes((1, *sorted(buckets)), tuple(seconds[: 1 + len(buckets)])),
    st.sets(st.integers(2, 128), max_size=6),
    st.lists(st.floats(0.5, 50), min_size=7, max_size=7),
)
TUNED_REACHES = st.lists(st.floats(0, 1), max_size=60).map(
    lambda chances: [1.0, *sorted(chances, reverse=True)]
)


def tuner(times: StepTimes, buckets: Buckets = ()) -> Tuner:
    """On a curve that real steps have proven."""
    return Tuner(StepTimeCurve(times, buckets, StepTimeCurve(times, buckets).shape), WindowSizer(3))


def test_rows_that_pay_in_a_short_chat_need_not_pay_in_a_long_one() -> None:
    times = StepTimes((1, 8, 128), (1.0, 1.2, 1.4), (1e-4, 5e-3, 5e-2))
    kept, curve = [], StepTimeCurve(times, (), StepTimeCurve(times, ()).shape)
    for context in (0, 10_000):
        kept.append(Tuner(curve, WindowSizer(3), context=context).kept(FADING[:16], 0))
    assert kept[0] > kept[1] == 1


def test_a_reply_moves_along_the_curve_as_it_is_written() -> None:
    curve = StepTimeCurve(StepTimes((1, 128), (1.0, 1.4), (0.01, 0.01)), ())
    planner = Tuner(curve, WindowSizer(3), context=100)
    assert curve.plain == pytest.approx(2.0)
    for _ in range(100):
        planner.observe_plain(curve.plain)
    assert curve.plain == pytest.approx(3.0, abs=0.64)


def plain_steps(planner: Tuner) -> int:
    """How many plain steps the planner asks for before the next draft."""
    count = 0
    while planner.plan(0).is_plain:
        count += 1
    return count


def worths(curve: StepTimeCurve, reaches: list[float], window: int, speed: float) -> list[float]:
    """Of the first row, the first two, ..., reckoned anew; a plain step has no window.

    What would not fill a bucket, although there are guesses for it, is worth nothing."""
    filled = {1, *(min(bucket - window, len(reaches)) for bucket in curve.buckets)}
    seconds = [curve.seconds[min(rows + window, curve.largest)] for rows in range(1, len(reaches) + 1)]
    found = [sum(reaches[:rows]) - speed * second for rows, second in enumerate(seconds, 1)]
    found = [max(found[0], 1 - speed * curve.plain), *found[1:]]
    return [worth if rows in filled else -inf for rows, worth in enumerate(found, start=1)]


@given(times=CURVES, reaches=TUNED_REACHES, window=st.integers(0, 15))
def test_no_other_number_of_rows_is_worth_more(times: StepTimes, reaches: list[float], window: int) -> None:
    planner, curve = tuner(times), StepTimeCurve(times, ())
    reaches = reaches[: max(curve.largest - window, 1)]
    found = worths(curve, reaches, window, 1 / curve.plain)
    kept = planner.kept(reaches, window)
    assert found[kept - 1] == pytest.approx(max(found))
    assert all(worth < found[kept - 1] + 1e-9 for worth in found[: kept - 1]), "and of equals the fewest"


@given(
    times=CURVES.map(lambda times: StepTimes(times.buckets, tuple(sorted(times.seconds)))),
    reaches=TUNED_REACHES,
    tokens=st.integers(1, 6),
    steps=st.integers(1, ROUND - 1),
)
def test_a_second_is_worth_the_tokens_that_were_written_in_one(
    times: StepTimes, reaches: list[float], tokens: int, steps: int
) -> None:
    planner, curve = tuner(times), StepTimeCurve(times, ())
    reaches = reaches[: curve.largest]
    for _ in range(steps):
        planner.observe(drafted(1, tokens, curve.seconds[1]))
    fading, old = sum(MEMORY**age for age in range(steps)), MEMORY**steps
    speed = (tokens * fading + old) / (curve.seconds[1] * fading + curve.plain * old)
    found = worths(curve, reaches, 0, speed)
    assert found[planner.kept(reaches, 0) - 1] == pytest.approx(max(found))


def test_the_reckoning_of_the_module() -> None:
    """At 0.5 tokens a second: seven guesses of 0.1 each pay for 0.2 s, eight more of 0.03 not for 0.8 s."""
    planner = tuner(StepTimes((1, 8, 16), (2.0, 2.2, 3.0)))
    assert planner.kept([1.0, *[0.1] * 7, *[0.03] * 8], 0) == 8
    assert planner.kept([1.0, *[0.1] * 7, *[0.08] * 8], 0) == 16


def test_where_rows_are_cheap_the_tree_is_wide_and_where_they_are_dear_there_is_none() -> None:
    assert tuner(CHEAP).kept(FADING, 0) > 40
    assert tuner(DEAR).kept(FADING, 0) == 1
    assert tuner(DEAR).kept([1.0, *[0.99] * 40], 0) == 1, "a second row costs a whole step"


def test_a_faster_text_makes_time_dearer() -> None:
    planner = tuner(StepTimes((1, 128), (1.0, 3.0)))
    slow = planner.kept(FADING, 0)
    for _ in range(200):
        planner.observe(drafted(1, 6, 1.0))
    assert planner.kept(FADING, 0) < slow


@given(
    buckets=st.sets(st.sampled_from((1, 4, 8, 16, 32, 64, 128)), min_size=1).map(lambda w: tuple(sorted(w)))
)
def test_padded_blocks_are_filled(buckets: Buckets) -> None:
    times = StepTimes((1, 4, 8, 16, 32, 64, 128), (1.0, 1.1, 1.2, 1.4, 1.8, 2.6, 4.2))
    planner, curve = tuner(times, buckets), StepTimeCurve(times, buckets)
    expected = list(accumulate(FADING))
    worth = [expected[rows - 1] - curve.seconds[rows] / curve.plain for rows in range(1, buckets[-1] + 1)]
    best = 1 + worth.index(max(worth))
    assert planner.kept(FADING[: buckets[-1]], 0) == best
    assert best == 1 or best in buckets, "padding costs the same as guesses"


@pytest.mark.parametrize("buckets", [(), (8, 32)])
def test_no_tree_is_wider_than_the_curve(buckets: Buckets) -> None:
    planner = tuner(StepTimes((1, 8, 32), (1.0, 1.0, 1.0)), buckets)
    for _ in range(5):
        planner.kept([1.0] * 32, 0)
    assert (planner.plan(0).rows, planner.plan(7).rows, planner.plan(99).rows) == (32, 25, 1)


def test_more_is_drafted_than_paid_lately() -> None:
    planner = tuner(CHEAP)
    planner.kept([1.0, *[0.9] * 39], 0)
    assert planner.plan(0).rows == 2 * 40 + SPARE
    for _ in range(50):
        planner.kept([1.0, 0.9], 0)
    assert planner.plan(0).rows == 2 * 2 + SPARE


def test_the_dearer_a_row_the_likelier_a_guess_must_be_to_be_looked_at() -> None:
    floors = [tuner(times).plan(0).min_reach for times in (CHEAP, STAIRS, DEAR)]
    assert floors == [TUNED_MIN_REACH, TUNED_MIN_REACH, pytest.approx(FLOOR, rel=0.01)]
    assert tuner(CHEAP).plan(0).depth == MAX_DEPTH


@pytest.mark.parametrize(("drafted_row", "rest"), [(1.0, 0), (1.06, 2), (1.6, 20)])
def test_drafts_that_do_not_pay_cost_a_small_share_of_the_time(drafted_row: float, rest: int) -> None:
    curve, rests = StepTimeCurve(CHEAP, (), CurveShape(1.0, (drafted_row, 2.0, 2.0))), []
    planner = Tuner(curve, WindowSizer(3))
    for _ in range(PATIENCE + 2):
        rests.append(plain_steps(planner))
        assert planner.kept(HOPELESS, 0) == 1
    assert rests == [0] * PATIENCE + [rest] * 2
    assert planner.kept(FADING, 0) > 1
    assert plain_steps(planner) == 0, "a guess that pays ends that"


def test_plain_steps_in_a_rest_count_for_the_speed() -> None:
    planner = tuner(StepTimes((1, 2, 128), (1.0, 1.02, 3.0)))
    before = planner.plan(0).min_reach
    for _ in range(300):
        planner.observe(drafted(2, 6, 1.02))
    assert planner.plan(0).min_reach > 2 * before, "a fast text makes time dear"
    for _ in range(STALE):
        planner.observe_plain(1.0)
    assert planner.plan(0).min_reach == pytest.approx(before, rel=0.1)


def test_real_steps_refine_the_curve() -> None:
    """On this machine eight rows turn out to cost three steps, where the curve at load said one."""
    planner = tuner(StepTimes((1, 8, 128), (1.0, 1.01, 20.0)))
    reaches = [1.0, *[0.1] * 7]
    assert planner.kept(reaches, 0) == 8
    for _ in range(8 * ROUND):
        planner.observe(drafted(8, 1, 3.0))
        planner.observe_plain(1.0)
    split = planner.observe(drafted(8, 1, 3.0, reaches=reaches))
    assert split.cost == pytest.approx(3, rel=0.1)
    assert planner.kept(reaches, 0) == 1


def test_a_curve_that_was_not_proven_is_put_to_the_test() -> None:
    """Measured on a busy machine, eight rows seem to cost ten steps; they cost little more than one."""
    curve = StepTimeCurve(StepTimes((1, 8, 128), (1.0, 10.0, 30.0)), ())
    planner, guesses = Tuner(curve, WindowSizer(3)), [1.0, *[0.2] * 20]
    assert planner.plan(0).min_reach == TUNED_MIN_REACH
    for _ in range(PROOF):
        assert planner.kept(guesses, 0) >= TRIAL
        assert planner.kept(guesses[:3], 0) == 3
        planner.observe_plain(1.0)
        planner.observe(drafted(TRIAL, 4, 1.2))
    assert not curve.is_unproven
    for _ in range(4 * ROUND):
        planner.observe_plain(1.0)
        planner.observe(drafted(TRIAL, 4, 1.2))
    assert planner.kept(guesses, 0) >= TRIAL, "so that it may believe again"


def test_trials_of_a_curve_do_not_keep_the_tuner_from_resting() -> None:
    planner = Tuner(StepTimeCurve(StepTimes((1, 8), (4e-4, 1.0)), ()), WindowSizer(3))
    rests = []
    for _ in range(PATIENCE + 2):
        rests.append(plain_steps(planner))
        assert planner.kept(HOPELESS, 0) == TRIAL
    assert rests == [0] * PATIENCE + [17] * 2


@pytest.mark.parametrize(
    ("reach", "price"),
    [(0.01, 0.2), (0.1, 1.0)],
    ids=["the time of its rows", "the tree would make more of these rows"],
)
def test_the_windows_price_is_the_time_of_its_rows_in_tokens(reach: float, price: float) -> None:
    """A window that earns just more than WORTH times its price keeps its columns, with just less it loses one."""
    for sizer, columns in ((1.1, 5), (0.9, 4)):
        planner = tuner(StepTimes((1, 101), (1.0, 3.0)))
        window = JacobiWindow(5, 3, [0] * 6)  # 9 rows
        earned = sizer * WORTH * price * window.size / 10
        planner.sizer.settle(window, 0.0, round(earned * STEPS))
        for _ in range(STEPS - 1):
            planner.observe(drafted(1, reaches=[reach] * 11, window=window))
        assert window.width == columns


def chain_tuner(times: StepTimes) -> ChainTuner:
    """On a curve that real steps have proven."""
    return ChainTuner(StepTimeCurve(times, (), StepTimeCurve(times, ()).shape), WindowSizer(0))


def test_a_chain_that_is_sure_is_as_long_as_a_tree_and_one_that_is_not_is_shorter() -> None:
    """Rows that are fed again cost two fifths of a step here: guesses must be righter than in a tree."""
    times = StepTimes((1, 2, 32), (1.0, 1.4, 1.5))
    sure, unsure = [1.0] * 12, [1.0, 0.45, 0.2, 0.05]
    assert chain_tuner(times).kept(sure, 0) == tuner(times).kept(sure, 0) == 12
    assert tuner(times).kept(unsure, 0) > 1
    assert chain_tuner(times).kept(unsure, 0) == 1


def test_pending_rows_are_settled_where_they_make_a_chain_dear() -> None:
    times = StepTimes((1, 32), (1.0, 4.1))
    reaches = [1.0, 0.6, 0.5]
    assert chain_tuner(times).kept(reaches, 0) > 1
    assert chain_tuner(times).kept(reaches, 31) == 1, "there is no room for more"


def test_a_plain_step_that_fed_pending_rows_says_nothing_about_plain_steps() -> None:
    planner = chain_tuner(StepTimes((1, 32), (1.0, 2.0)))
    before = planner._curve.plain
    for _ in range(2 * ROUND):
        assert planner.observe_plain(30.0, rows=9).cost > 1
    assert planner._curve.plain == before


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


@pytest.mark.parametrize("rows", [16, 24, 32, 64])
def test_two_thirds_of_the_budget_are_the_trees(rows: int) -> None:
    planner = budget(rows, columns=8)
    columns = planner.columns
    window = JacobiWindow(columns, planner.ngram, range(columns + planner.ngram - 2))
    assert 3 * window.size <= rows
    assert planner.plan(window.size).rows == rows - window.size


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


def test_plain_steps_are_timed_early_even_if_drafting_pays_well() -> None:
    """Nobody can tell a gain by a plain step that was measured once, while the machine was busy."""
    at_work = tuner(CHEAP)
    plain = []
    for step in range(10 * CHECK_SOON):
        if at_work.plan(0).is_plain:
            plain.append(step)
            at_work.observe_plain(1.0)
        else:
            at_work.kept(FADING[:9], 0)
            at_work.observe(drafted(9, 5, 1.01))
    assert len(plain) == PROOF and plain[0] == CHECK_SOON
