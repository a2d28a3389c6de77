"""A reply's log: one writer, any number of readers, each from any point."""

import threading
from collections.abc import Callable, Iterator
from time import monotonic

import pytest

from app.conversation import Reply
from app.values.messages import Event, Failed, Finished, ModelInfo, Piece, Prefilling, Statistics
from app.values.trace import NO_TRACE, TRACED_STEPS, StepTrace

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
        reader.join(timeout=10)
    assert not any(reader.is_alive() for reader in readers)


def test_many_readers_see_the_same_events(reading: Callable[..., Reader]) -> None:
    reply = Reply()
    readers = [reading(reply) for _ in range(8)]
    for event in EVENTS:
        reply.append(event)
    for reader in readers:
        reader.join(timeout=10)
        assert reader.seen == EVENTS


def test_a_reader_may_come_late_and_start_anywhere(reading: Callable[..., Reader]) -> None:
    reply = written(EVENTS[:4])
    readers = [reading(reply, start) for start in range(len(EVENTS) + 1)]
    for event in EVENTS[4:]:
        reply.append(event)
    for start, reader in enumerate(readers):
        reader.join(timeout=10)
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
    assert 0.04 < monotonic() - begin < 5
    assert reply.wait(0, timeout=0) == EVENTS[:2]


def test_waiting_for_a_number_that_comes_later_is_not_cut_short_by_earlier_ones() -> None:
    reply = Reply()
    seen: list[Event] = []
    reader = threading.Thread(target=lambda: seen.extend(reply.wait(2, timeout=10)))
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
