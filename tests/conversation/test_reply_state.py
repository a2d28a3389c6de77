"""Folding a reply's events into what a reader has seen: laws that hold for any reply."""

from functools import reduce
from typing import get_args

from hypothesis import given
from hypothesis import strategies as some

from app.conversation import ReplyState, fold
from app.values.messages import (
    Event,
    Failed,
    Finished,
    Loading,
    ModelInfo,
    Origin,
    Piece,
    Prefilling,
    Statistics,
    StopReason,
)

MODEL = ModelInfo("tiny", "", "", "Tiny", 1, 64, "float32", "cpu")
COUNTS = some.integers(0, 1000)
STATISTICS = some.builds(Statistics, tokens=COUNTS, steps=COUNTS, hits=COUNTS, pool_size=COUNTS)
ORIGINS = some.lists(some.sampled_from(get_args(Origin)), max_size=5).map(tuple)
UNDER_WAY = some.one_of(
    some.builds(Loading, some.text(), COUNTS, COUNTS),
    some.builds(Prefilling, COUNTS, COUNTS),
    some.builds(Piece, some.text(), some.tuples(COUNTS), ORIGINS, STATISTICS),
)
LAST = some.one_of(
    some.builds(
        Finished, some.sampled_from(get_args(StopReason)), STATISTICS, some.just(MODEL), some.just("plain")
    ),
    some.builds(Failed, some.text(min_size=1)),
)
BEGUN: some.SearchStrategy[list[Event]] = some.lists(UNDER_WAY, max_size=12)


@given(BEGUN, BEGUN)
def test_folding_in_parts_is_folding_at_once(first: list[Event], second: list[Event]) -> None:
    assert fold(fold(ReplyState(), first), second) == fold(ReplyState(), first + second)


@given(BEGUN)
def test_folding_one_by_one_is_folding_at_once(events: list[Event]) -> None:
    one_by_one = reduce(lambda state, event: fold(state, [event]), events, ReplyState())
    assert one_by_one == fold(ReplyState(), events)


@given(BEGUN, LAST)
def test_the_text_is_the_pieces_joined_however_it_ends(events: list[Event], last: Event) -> None:
    text = "".join(event.text for event in events if isinstance(event, Piece))
    assert fold(ReplyState(), events).text == text
    assert fold(ReplyState(), [*events, last]).text == text


@given(BEGUN, LAST)
def test_a_reply_is_done_with_its_last_event_and_not_before(events: list[Event], last: Event) -> None:
    begun = fold(ReplyState(), events)
    ended = fold(begun, [last])
    assert not begun.is_done
    assert ended.is_done
    assert (ended.finished is None) == isinstance(last, Failed)


@given(BEGUN)
def test_the_numbers_are_the_newest_pieces(events: list[Event]) -> None:
    pieces = [event for event in events if isinstance(event, Piece)]
    state = fold(ReplyState(), events)
    assert state.statistics == (pieces[-1].statistics if pieces else Statistics())


def test_nothing_folds_to_waiting() -> None:
    assert fold(ReplyState(), []) == ReplyState()
    assert ReplyState().phase == "waiting"


def test_each_phase_says_what_it_does() -> None:
    state = fold(ReplyState(), [Loading("Loading demo", 1, 4)])
    assert (state.phase, state.note, state.progress) == ("loading", "Loading demo", (1, 4))
    state = fold(state, [Prefilling(8, 9)])
    assert (state.phase, state.note, state.progress) == ("prefilling", "", (8, 9))
    state = fold(state, [Failed("It broke: load it again.")])
    assert (state.phase, state.note) == ("failed", "It broke: load it again.")
