"""The X-ray's steps: those of the newest reply in the chat that a page looks at."""

from collections.abc import Iterator, Sequence

import pytest

from app.conversation import Reply
from app.messages import Finished, Piece, Prefilling, Request, Statistics
from app.step_trace import NO_TRACE, StepTrace
from app.ui.chat.reply_watch import ReplyWatch
from app.ui.live.port import KEPT_STEPS, Recording
from tests.fakes import DEMO, ScriptedEngine, WordReader
from tests.ui.chat.people import Visitor

TRACE = StepTrace(tokens=(3,), parents=(-1,), origins=("model",), predicted=(4,))


class TracingEngine(ScriptedEngine):
    """Writes steps that picture themselves, as many as it is told to, and does not end."""

    count = 3

    def __init__(self) -> None:
        super().__init__()
        self.replies: list[Reply] = []

    def end(self) -> None:
        for reply in self.replies:
            reply.append(Finished("stopped", Statistics(), DEMO, "auto"))

    def submit(self, request: Request, reply: Reply) -> None:
        self.requests.append(request)
        self.replies.append(reply)
        reply.append(Prefilling(1, 1))
        for number in range(self.count):
            numbers = Statistics(tokens=number + 1, steps=number + 1)
            # The first token is the prefill's: no step, no picture.
            trace = TRACE if number else NO_TRACE
            reply.append(Piece("word ", (number,), ("model",), numbers, (5,), trace))


class OtherReader(WordReader):
    """Another model's tokenizer."""

    def texts(self, ids: Sequence[int]) -> tuple[str, ...]:
        return tuple(f"other {token}" for token in ids)


@pytest.fixture
def engine() -> TracingEngine:
    return TracingEngine()


@pytest.fixture(autouse=True)
def ended(person: Visitor, engine: TracingEngine) -> Iterator[None]:
    """The replies end before their chats are closed: otherwise these would be waited for."""
    del person
    yield
    engine.end()


def test_without_a_reply_there_is_nothing_to_see(person: Visitor) -> None:
    assert ReplyWatch(person.services).recording(person.seat.place.chat) == Recording()


def test_every_step_with_a_picture_is_kept_with_what_it_wrote(person: Visitor) -> None:
    person.ask("One")
    recording = ReplyWatch(person.services).recording(person.seat.place.chat)
    assert [step.token_ids for step in recording.steps] == [(1,), (2,)]
    assert recording.statistics.steps == 3
    assert recording.settings["model"]["name"] == "demo"  # type: ignore[index]


def test_a_reply_is_read_on(person: Visitor) -> None:
    person.ask("One")
    watch = ReplyWatch(person.services)
    watch.recording(person.seat.place.chat)
    writing = person.services.conversations.newest(person.seat.place.chat)
    assert writing is not None
    writing.reply.append(Piece("more", (9,), ("model",), Statistics(), (4,), TRACE))
    assert [step.token_ids for step in watch.recording(person.seat.place.chat).steps] == [(1,), (2,), (9,)]


def test_only_the_newest_steps_are_kept(person: Visitor, engine: TracingEngine) -> None:
    engine.count = KEPT_STEPS + 10
    person.ask("One")
    steps = ReplyWatch(person.services).recording(person.seat.place.chat).steps
    assert len(steps) == KEPT_STEPS
    assert steps[-1].token_ids == (engine.count - 1,)


def test_pages_watch_the_chats_that_they_look_at(
    person: Visitor, other: Visitor, engine: TracingEngine
) -> None:
    watch = ReplyWatch(person.services)

    def seen(visitor: Visitor) -> list[tuple[int, ...]]:
        return [step.token_ids for step in watch.recording(visitor.seat.place.chat).steps]

    person.ask("One")
    assert seen(person) == [(1,), (2,)]
    engine.count = 2
    other.ask("Two")
    assert (seen(person), seen(other)) == ([(1,), (2,)], [(1,)])
    other.actions.begin(other.seat)
    assert (seen(person), seen(other)) == ([(1,), (2,)], [])


def test_tokens_are_read_by_the_model_that_wrote_them(person: Visitor, engine: TracingEngine) -> None:
    watch = ReplyWatch(person.services)
    person.ask("One")
    watch.recording(person.seat.place.chat)
    engine.words = OtherReader()
    assert watch.texts(person.seat.place.chat, (7,)) == ("t7",)
    watch.recording(person.seat.place.chat)
    assert watch.texts(person.seat.place.chat, (7,)) == ("t7",)
