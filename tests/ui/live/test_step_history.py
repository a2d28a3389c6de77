"""The fold that the live pictures are drawn from."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.ui.live.step_history import CHART_STEPS, STRIP_STEPS, StepHistory, TracedStep, extend
from app.values.messages import Origin, Piece, Statistics
from app.values.reply_statistics import TRACED_STEPS, StepTrace
from tests.ui.live.traces import step_of

DRAFTED: tuple[Origin, ...] = ("window", "window", "model")


def test_the_prefills_first_token_leaves_nothing() -> None:
    assert extend(StepHistory(), [step_of(0, "model")]) == StepHistory(statistics=Statistics(steps=0))


def test_the_example_of_the_essay() -> None:
    history = extend(StepHistory(), [step_of(1, "model"), step_of(2, *DRAFTED), step_of(3, "model")])
    assert history.lengths[:3] == (2, 0, 1)
    assert history.written[:3] == (3, 0, 2)
    assert [tokens for tokens, _ in history.means] == pytest.approx([1, 2, 5 / 3])
    assert [hits for _, hits in history.means] == pytest.approx([0, 1 / 2, 1 / 3])


@given(
    st.lists(st.sampled_from([("model",), DRAFTED, ("output",) * 9]), max_size=40),
    st.integers(min_value=0, max_value=40),
)
def test_a_history_grows_the_same_in_one_go_or_in_two(steps: list[tuple[Origin, ...]], cut: int) -> None:
    events = [step_of(number, *step) for number, step in enumerate(steps, start=1)]
    assert extend(extend(StepHistory(), events[:cut]), events[cut:]) == extend(StepHistory(), events)


def test_old_steps_are_forgotten_but_stay_counted() -> None:
    steps = 3 * CHART_STEPS
    history = extend(StepHistory(), plain_steps(steps))
    assert (len(history.origins), len(history.means)) == (STRIP_STEPS, CHART_STEPS)
    assert history.lengths[0] == history.written[0] == history.statistics.steps == steps


def plain_steps(count: int, first: int = 1) -> list[Piece]:
    return [step_of(number, "model") for number in range(first, first + count)]


def test_the_newest_steps_are_kept_with_their_traces() -> None:
    trace = StepTrace(tokens=(3,), parents=(-1,), origins=("model",), predicted=(4,))
    count = TRACED_STEPS + 10
    pieces = [Piece("x", (n,), ("model",), Statistics(steps=n), (1,), trace) for n in range(1, count + 1)]
    history = extend(extend(StepHistory(), pieces[:7]), pieces[7:])
    assert len(history.traced) == TRACED_STEPS
    assert history.traced[-1] == TracedStep(trace, (count,))
    assert (history.first, history.last) == (11, count)
