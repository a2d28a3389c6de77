"""The fold that the live pictures are drawn from."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.messages import Origin, Piece
from app.ui.live.trail import CHART_STEPS, LONGEST, MEAN_STEPS, STRIP_STEPS, Trail, extend
from tests.ui.live.pieces import step_of

DRAFTED: tuple[Origin, ...] = ("window", "window", "model")


def test_the_prefills_first_token_leaves_nothing() -> None:
    assert extend(Trail(), [step_of(0, "model")]) == Trail()


def test_the_example_of_the_essay() -> None:
    trail = extend(Trail(), [step_of(1, "model"), step_of(2, *DRAFTED), step_of(3, "model")])
    assert trail.lengths[:3] == (2, 0, 1)
    assert trail.written[:3] == (3, 0, 2)
    assert [tokens for tokens, _ in trail.means] == pytest.approx([1, 2, 5 / 3])
    assert [hits for _, hits in trail.means] == pytest.approx([0, 1 / 2, 1 / 3])


@given(
    st.lists(st.sampled_from([("model",), DRAFTED, ("output",) * 9]), max_size=40),
    st.integers(min_value=0, max_value=40),
)
def test_a_trail_grows_the_same_in_one_go_or_in_two(steps: list[tuple[Origin, ...]], cut: int) -> None:
    events = [step_of(number, *step) for number, step in enumerate(steps, start=1)]
    assert extend(extend(Trail(), events[:cut]), events[cut:]) == extend(Trail(), events)


def test_old_steps_are_forgotten_but_stay_counted() -> None:
    steps = 3 * CHART_STEPS
    trail = extend(Trail(), plain_steps(steps))
    assert (len(trail.steps), len(trail.means)) == (STRIP_STEPS, CHART_STEPS)
    assert trail.lengths[0] == trail.written[0] == trail.counted == steps


def test_very_long_steps_share_the_last_column() -> None:
    trail = extend(Trail(), [step_of(1, *("output",) * LONGEST), step_of(2, *("output",) * 40)])
    assert trail.lengths[-1] == 2


def test_the_mean_forgets() -> None:
    trail = extend(Trail(), [step_of(1, *DRAFTED), *plain_steps(1 + MEAN_STEPS, first=2)])
    assert trail.means[-1] == (1.0, 0.0)


def plain_steps(count: int, first: int = 1) -> list[Piece]:
    return [step_of(number, "model") for number in range(first, first + count)]
