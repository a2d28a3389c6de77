"""A reply's log has one writer and any number of readers, each from any point; laws of what they read."""

import threading
from collections.abc import Callable, Iterator
from time import monotonic
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as some

from app.conversation import Reply, ReplySoFar, ReplyState
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
from app.values.reply_statistics import NO_TRACE, TRACED_STEPS, StepTrace

MODEL = ModelInfo("tiny", "", "", "Tiny", 1, 64, "float32", "cpu")
FINISHED = Finished("eos", Statistics(), MODEL, "plain")


def piece(text: str) -> Piece:
    return Piece(text, (1,), ("model",), Statistics())


EVENTS: list[Event] = [Prefilling(1, 1), *(piece(letter) for letter in "lookahead"), FINISHED]


def written(events: list[Event]) -> Reply:
    reply = Reply()
    for event in events:
        reply.append(event)
    return reply


class Reader(threading.Thread):
    """Reads a reply on a thread of its own and keeps what it saw."""

    def __init__(self, reply: Reply, start: int = 0) -> None:
        super().__init__(daemon=True)
        self.seen: list[Event] = []
        self._events = reply.events(start)
        self.start()

    def run(self) -> None:
        self.seen.extend(self._events)


@pytest.fixture
def reading() -> Iterator[Callable[..., Reader]]:
    """Starts readers and sees to it that all of them came to their end."""
    readers: list[Reader] = []

    def read(reply: Reply, start: int = 0) -> Reader:
        readers.append(Reader(reply, start))
        return readers[-1]

    yield read
    for reader in readers:
        reader.join(timeout=300)
    assert not any(reader.is_alive() for reader in readers)


def test_many_readers_see_the_same_events(reading: Callable[..., Reader]) -> None:
    reply = Reply()
    readers = [reading(reply) for _ in range(8)]
    for event in EVENTS:
        reply.append(event)
    for reader in readers:
        reader.join(timeout=300)
        assert reader.seen == EVENTS


def test_a_reader_may_come_late_and_start_anywhere(reading: Callable[..., Reader]) -> None:
    reply = written(EVENTS[:4])
    readers = [reading(reply, start) for start in range(len(EVENTS) + 1)]
    for event in EVENTS[4:]:
        reply.append(event)
    for start, reader in enumerate(readers):
        reader.join(timeout=300)
        assert reader.seen == EVENTS[start:]


@pytest.mark.parametrize("start", range(len(EVENTS) + 2))
def test_a_finished_reply_replays_from_any_point_without_waiting(start: int) -> None:
    assert list(written(EVENTS).events(start)) == EVENTS[start:]
    assert written(EVENTS).wait(start, timeout=None) == EVENTS[start:]


def test_readers_that_leave_stop_nothing() -> None:
    reply = written(EVENTS[:3])
    reader = reply.events()
    assert next(reader) == EVENTS[0]
    reader.close()  # type: ignore[attr-defined]
    assert not reply.is_stopping
    for event in EVENTS[3:]:
        reply.append(event)
    assert list(reply.events()) == EVENTS


def test_waiting_ends_with_its_time_when_nothing_comes() -> None:
    reply = written(EVENTS[:2])
    begin = monotonic()
    assert reply.wait(2, timeout=0.05) == []
    assert monotonic() - begin > 0.04
    assert reply.wait(0, timeout=0) == EVENTS[:2]


def test_waiting_for_a_number_that_comes_later_is_not_cut_short_by_earlier_ones() -> None:
    reply = Reply()
    seen: list[Event] = []
    reader = threading.Thread(target=lambda: seen.extend(reply.wait(2, timeout=300)))
    reader.start()
    for event in EVENTS[:3]:
        assert seen == []
        reply.append(event)
    reader.join()
    assert seen == EVENTS[2:3]


@pytest.mark.parametrize("last", [FINISHED, Failed("The model is broken: choose another one.")])
def test_nothing_comes_after_the_end(last: Event) -> None:
    reply = written([last])
    assert reply.is_done
    with pytest.raises(RuntimeError, match="reply has ended"):
        reply.append(piece("more"))
    assert list(reply.events()) == [last]


def test_stopping_is_a_wish_that_may_be_repeated() -> None:
    reply = Reply()
    assert not reply.is_stopping
    reply.stop()
    reply.stop()
    assert reply.is_stopping and not reply.is_done
    reply.append(FINISHED)
    reply.stop()
    assert reply.is_done


def test_only_the_newest_steps_keep_their_traces_however_long_the_reply_is() -> None:
    reply, steps = Reply(), 3 * TRACED_STEPS
    reply.append(piece("prefill"))
    for step in range(steps):
        reply.append(
            Piece("x", (1,), ("model",), Statistics(), trace=StepTrace((step,), (-1,), ("model",), (step,)))
        )
    pieces = [event for event in reply.wait(0, timeout=0) if isinstance(event, Piece)]
    assert len(pieces) == steps + 1 and "".join(one.text for one in pieces) == "prefill" + "x" * steps
    traced = [one.trace.tokens[0] for one in pieces if one.trace != NO_TRACE]
    assert traced == list(range(steps - TRACED_STEPS, steps))


COUNTS = some.integers(0, 1000)
STATISTICS = some.builds(Statistics, tokens=COUNTS, steps=COUNTS, hits=COUNTS, pool_size=COUNTS)
ORIGINS = some.lists(some.sampled_from(get_args(Origin)), max_size=5).map(tuple)
UNDER_WAY = some.one_of(
    some.builds(Loading, some.text(), COUNTS, COUNTS),
    some.builds(Prefilling, COUNTS, COUNTS),
    ORIGINS.flatmap(
        lambda origins: some.builds(
            Piece, some.text(), some.just(tuple(range(len(origins)))), some.just(origins), STATISTICS
        )
    ),
)
LAST = some.one_of(
    some.builds(
        Finished, some.sampled_from(get_args(StopReason)), STATISTICS, some.just(MODEL), some.just("plain")
    ),
    some.builds(Failed, some.text(min_size=1)),
)
BEGUN: some.SearchStrategy[list[Event]] = some.lists(UNDER_WAY, max_size=12)


def taken(*batches: list[Event]) -> ReplySoFar:
    so_far = ReplySoFar()
    for batch in batches:
        so_far.take(batch)
    return so_far


@given(BEGUN, BEGUN)
def test_reading_in_parts_is_reading_at_once(first: list[Event], second: list[Event]) -> None:
    whole = taken(first + second)
    for so_far in (taken(first, second), taken(*([event] for event in first + second))):
        assert so_far.state == whole.state
        assert (so_far.token_ids, so_far.marks, so_far.curve) == (whole.token_ids, whole.marks, whole.curve)
        assert (so_far.sources, so_far.thought) == (whole.sources, whole.thought)


@given(BEGUN, LAST)
def test_the_text_is_the_pieces_joined_however_it_ends(events: list[Event], last: Event) -> None:
    text = "".join(event.text for event in events if isinstance(event, Piece))
    assert taken(events).text == text == taken(events, [last]).text


@given(BEGUN, LAST)
def test_a_reply_is_done_with_its_last_event_and_not_before(events: list[Event], last: Event) -> None:
    ended = taken(events, [last])
    assert not taken(events).is_done and ended.is_done and ended.state.is_done
    assert (ended.finished is None) == isinstance(last, Failed)


@given(BEGUN)
def test_the_numbers_are_the_newest_pieces_and_every_token_is_counted(events: list[Event]) -> None:
    pieces = [event for event in events if isinstance(event, Piece)]
    so_far = taken(events)
    assert so_far.statistics == (pieces[-1].statistics if pieces else Statistics())
    assert len(so_far.token_ids) == so_far.sources.total() == len(so_far.marks)
    assert so_far.accepted == so_far.sources.total() - so_far.sources["model"]


def test_each_phase_says_what_it_does() -> None:
    assert taken().state == ReplyState() and ReplyState().phase == "waiting"
    state = taken([Loading("Loading demo", 1, 4)]).state
    assert (state.phase, state.note, state.progress) == ("loading", "Loading demo", (1, 4))
    state = taken([Loading("Loading demo", 1, 4), Prefilling(8, 9)]).state
    assert (state.phase, state.note, state.progress) == ("prefilling", "", (8, 9))
    state = taken([Failed("It broke: load it again.")]).state
    assert (state.phase, state.note) == ("failed", "It broke: load it again.")


def test_drafted_tokens_that_were_not_accepted_are_rejected() -> None:
    tree = StepTrace(
        (7, 8, 9, 5), (-1, 0, 1, 0), ("model", "window", "window", "prompt"), (8, 4, 1, 1), (0, 1)
    )
    so_far = taken([Piece("ab", (8, 4), ("window", "model"), Statistics(), (1, 2), tree)])
    assert (so_far.drafted, so_far.accepted, so_far.rejected) == (3, 1, 2)
