"""One reply as a page follows it, the line below it, and the numbers of replies that are stored."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest

from app.conversation import Reply, ReplySettings, ReplyState, StartedReply
from app.ui.chat.render import decoder_of, latest_answer, note_html, stored_state
from app.ui.chat.reply_progress import ReplyProgress
from app.values.chat import ChatVersion, MessageContent, Provenance, StoredMessage, Thread
from app.values.messages import (
    DecoderName,
    Event,
    Failed,
    Finished,
    Loading,
    ModelChoice,
    Options,
    Piece,
    Prefilling,
    Request,
    Statistics,
)
from app.values.reply_statistics import NO_TRACE, StepTrace
from tests.fakes import DEMO, ScriptedEngine, WordReader, written
from tests.ui.chat.people import Visitor

NUMBERS = Statistics(tokens=46, steps=20, hits=10, time_to_first_token=0.05, seconds=0.5)
PIECE = Piece("Hel", (1,), ("model",), NUMBERS, (3,))
END = Finished("eos", NUMBERS, DEMO, "lookahead")
QUESTION = StoredMessage(1, "user", MessageContent("hi", "done"), versions=(1,))
WAITING = StoredMessage(2, "assistant", MessageContent(), versions=(2,))
ANSWER = replace(
    WAITING,
    content=MessageContent(
        "Hello", "done", provenance=Provenance(DEMO, Options(), "lookahead", "eos", NUMBERS)
    ),
)
THREAD = Thread(ChatVersion(5, 3), "Hi", messages=(QUESTION, ANSWER))
TRACE = StepTrace(tokens=(3,), parents=(-1,), origins=("model",), predicted=(4,))


def progress_of(*events: Event, before: MessageContent | None = None) -> ReplyProgress:
    """The reply of which this came so far, as it was read."""
    asked = ReplySettings(ModelChoice("demo"), Options())
    progress = ReplyProgress(StartedReply(2, asked, written(*events), before or MessageContent()), WordReader)
    progress.read()
    return progress


def test_the_numbers_are_those_of_the_newest_answer() -> None:
    newest = replace(THREAD, messages=(QUESTION, ANSWER, replace(QUESTION, id=3)))
    assert latest_answer(newest) == ANSWER
    assert latest_answer(Thread(ChatVersion())) is None


def test_a_stored_reply_is_a_reply_that_has_ended() -> None:
    state = stored_state(ANSWER)
    assert (state.phase, state.text, state.statistics) == ("finished", "Hello", NUMBERS)
    assert state.finished == replace(END)


def test_the_note_says_what_is_awaited() -> None:
    assert "Waiting for the model" in note_html(ReplyState())
    loading = note_html(progress_of(Loading("Loading <demo>", 3, 14)).state)
    assert "Loading &lt;demo&gt;" in loading
    assert 'value="3" max="14" aria-label="Loading &lt;demo&gt;' in loading
    assert "300 of 1,000 tokens" in note_html(progress_of(Prefilling(300, 1000)).state)


@pytest.mark.parametrize("events", [(PIECE,), (PIECE, END), (PIECE, Failed("No."))])
def test_what_was_awaited_is_not_told_once_text_comes(events: tuple[Event, ...]) -> None:
    note = note_html(progress_of(Prefilling(9, 9), *events).state)
    assert "Writing…" in note and "<progress" not in note


@pytest.mark.parametrize(
    ("chosen", "events", "decoder"),
    [("plain", (PIECE,), "plain"), ("auto", (PIECE,), "auto"), ("plain", (PIECE, END), "lookahead")],
)
def test_the_decoder_is_the_chosen_one_until_the_reply_says_itself(
    chosen: DecoderName, events: tuple[Event, ...], decoder: DecoderName
) -> None:
    assert decoder_of(progress_of(*events).state, chosen, DEMO) == decoder


def test_a_model_without_lookahead_is_plain_whatever_was_chosen() -> None:
    model = DEMO.with_note("lookahead", "Its cache cannot be compacted.")
    assert decoder_of(progress_of(PIECE).state, "auto", model) == "plain"


def test_a_reply_is_read_once_and_nothing_twice() -> None:
    reply = Reply()
    progress = ReplyProgress(
        StartedReply(2, ReplySettings(ModelChoice("demo"), Options()), reply), WordReader
    )
    assert not progress.read()
    reply.append(PIECE)
    assert progress.read() and not progress.read()
    reply.append(PIECE)
    progress.read()
    assert progress.state.text == "HelHel"


def test_a_continued_reply_begins_with_what_was_there() -> None:
    progress = progress_of(before=MessageContent("Well, ", "stopped"))
    assert "Well," in "".join(progress.blocks)
    assert progress_of(PIECE, before=MessageContent("Well, ", "stopped")).state.text == "Well, Hel"


def test_a_thought_is_timed_while_it_arrives() -> None:
    thinking = Piece("<think>hm</think>Yes", (1,), ("model",), replace(NUMBERS, seconds=3.11), (20,))
    assert "Thought for 3.2 s" in "".join(progress_of(thinking).blocks)


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


def test_tokens_are_read_by_the_model_that_wrote_them(person: Visitor, engine: TracingEngine) -> None:
    person.ask("One")
    person.look()
    reply = person.state.reply
    assert reply and reply.reader.texts((7,)) == ("t7",)
    engine.words = OtherReader()
    writing = person.services.conversations.newest_reply(person.state.version.chat)
    assert writing
    writing.reply.append(Piece("more", (9,), ("model",), Statistics(steps=4), (4,), TRACE))
    person.look()
    assert reply.reader.texts((7,)) == ("t7",)
    assert [step.token_ids for step in reply.history.traced] == [(1,), (2,), (9,)]


def test_pages_follow_the_replies_of_their_own_chats(
    person: Visitor, other: Visitor, engine: TracingEngine
) -> None:
    def steps(visitor: Visitor) -> list[tuple[int, ...]]:
        visitor.look()
        reply = visitor.state.reply
        return [step.token_ids for step in reply.history.traced] if reply else []

    assert steps(person) == []
    person.ask("One")
    assert steps(person) == [(1,), (2,)]
    engine.count = 2
    other.ask("Two")
    assert (steps(person), steps(other)) == ([(1,), (2,)], [(1,)])
    other.actions.new_chat(other.state)
    assert (steps(person), steps(other)) == ([(1,), (2,)], [])
