"""Every state of the chat's page, without a page."""

from dataclasses import replace

import pytest

from app.chat_messages import ChatSettings, ChatVersion, MessageContent, Provenance, StoredMessage, Thread
from app.conversation import ContextFit, Reply, ReplySettings, ReplyState, StartedReply
from app.messages import (
    DecoderName,
    EngineStatus,
    Event,
    Failed,
    Finished,
    Loading,
    ModelChoice,
    Options,
    Piece,
    Prefilling,
    Statistics,
)
from app.ui.chat.following import Following
from app.ui.chat.screen import Screen, Seen, latest_answer, messages_html, note_html, screen, stored_state
from tests.fakes import DEMO, written

READY = EngineStatus("ready", model=DEMO)
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
UNDER_WAY = replace(THREAD, messages=(QUESTION, WAITING))
EMPTY = Seen(Thread(ChatVersion()), False, "", None, frozenset(), False, 0, 0, "auto", None)


def following(*events: Event, first_read: int = 0, before: MessageContent | None = None) -> Following:
    """The reply of which this came so far, as it was read."""
    reply = written(*events)
    asked = ReplySettings(ModelChoice("demo"), Options())
    found = Following(StartedReply(2, asked, reply, before or MessageContent(), first_read))
    found.read()
    return found


def drawn(seen: Seen, status: EngineStatus = READY) -> Screen:
    return screen(seen, messages_html(seen), "", status)


def test_an_empty_chat_is_empty_and_at_rest() -> None:
    page = drawn(EMPTY)
    assert page.is_empty and not page.is_busy
    assert (page.thread, page.live, page.note) == ("", (), "")


def test_a_chat_of_which_only_earlier_messages_are_left_is_not_empty() -> None:
    assert not drawn(replace(EMPTY, thread=replace(THREAD, messages=(), earlier=3))).is_empty


def test_a_reply_under_way_stands_below_the_others() -> None:
    page = drawn(replace(EMPTY, thread=UNDER_WAY, is_writing=True, following=following(PIECE)))
    assert page.is_busy
    assert page.thread.count("<article") == 1
    assert page.live == ("<p>Hel</p>\n",) or "Hel" in "".join(page.live)
    assert "Writing" in page.note


def test_a_stored_reply_stands_among_the_others() -> None:
    page = drawn(replace(EMPTY, thread=THREAD, following=following(PIECE, END)))
    assert not page.is_busy
    assert page.thread.count("<article") == 2
    assert (page.live, page.note) == ((), "")


def test_a_reply_that_could_not_be_stored_stays_in_sight_and_says_so() -> None:
    full = "The disk is full: <free> some space."
    seen = replace(EMPTY, thread=UNDER_WAY, problem=full, following=following(PIECE, END))
    page = drawn(seen)
    assert not page.is_busy
    assert "Hel" in "".join(page.live)
    assert page.thread.count("<article") == 1
    assert (
        'role="alert"' in page.note and "&lt;free&gt; some space. The reply above is not saved" in page.note
    )


def test_the_numbers_of_a_stored_reply_are_shown_when_its_chat_is_opened() -> None:
    assert "2.30" in drawn(replace(EMPTY, thread=THREAD)).panel


def test_the_numbers_are_those_of_the_newest_answer() -> None:
    newest = replace(THREAD, messages=(QUESTION, ANSWER, replace(QUESTION, id=3)))
    assert latest_answer(newest) == ANSWER
    assert latest_answer(Thread(ChatVersion())) is None


def test_a_stored_reply_is_a_reply_that_has_ended() -> None:
    state = stored_state(ANSWER)
    assert (state.phase, state.text, state.statistics) == ("finished", "Hello", NUMBERS)
    assert state.finished == replace(END)


def test_a_reply_without_provenance_has_failed() -> None:
    lost = replace(ANSWER, content=MessageContent("Hel", "failed", "Memory ran out."))
    assert (stored_state(lost).phase, stored_state(lost).note) == ("failed", "Memory ran out.")
    assert not drawn(replace(EMPTY, thread=replace(THREAD, messages=(lost,)))).is_busy


def test_the_cut_line_stands_before_the_first_message_that_was_sent() -> None:
    cut = drawn(replace(EMPTY, thread=THREAD, following=following(PIECE, END, first_read=2))).thread
    assert cut.index("cut-line") > cut.index('data-message="1"')
    assert "cut-line" not in drawn(replace(EMPTY, thread=THREAD, following=following(PIECE, END))).thread


def test_the_note_says_what_is_awaited() -> None:
    assert "Waiting for the model" in note_html(ReplyState())
    loading = note_html(following(Loading("Loading <demo>", 3, 14)).state)
    assert "Loading &lt;demo&gt;" in loading
    assert 'value="3" max="14"' in loading
    assert "300 of 1,000 tokens" in note_html(following(Prefilling(300, 1000)).state)


def test_loading_of_which_nobody_knows_the_length_has_no_bar() -> None:
    assert "<progress" not in note_html(following(Loading("Loading demo")).state)


@pytest.mark.parametrize("events", [(PIECE,), (PIECE, END), (PIECE, Failed("No."))])
def test_what_was_awaited_is_not_told_once_text_comes(events: tuple[Event, ...]) -> None:
    note = note_html(following(Prefilling(9, 9), *events).state)
    assert "Writing" in note and "<progress" not in note


@pytest.mark.parametrize(
    ("asked", "events", "is_plain"),
    [("plain", (PIECE,), True), ("auto", (PIECE,), False), ("plain", (PIECE, END), False)],
)
def test_a_reply_is_called_plain_by_how_it_was_asked_for_until_it_says_itself(
    asked: DecoderName, events: tuple[Event, ...], is_plain: bool
) -> None:
    page = drawn(replace(EMPTY, thread=THREAD, asked=asked, following=following(*events)))
    assert ("Plain decoding" in page.panel) == is_plain


def test_a_model_without_lookahead_is_plain_whatever_was_asked() -> None:
    status = replace(READY, model=replace(DEMO, lookahead_note="Its cache cannot be compacted."))
    page = drawn(replace(EMPTY, thread=UNDER_WAY, is_writing=True, following=following(PIECE)), status)
    assert "Plain decoding" in page.panel
    assert "cannot be compacted" in page.panel


def test_the_meter_and_the_instructions_are_those_of_the_chat() -> None:
    thread = replace(THREAD, settings=ChatSettings("Be brief."))
    page = drawn(replace(EMPTY, thread=thread, fit=ContextFit(10, 100, 25)))
    assert "10 of 100 tokens" in page.meter
    assert page.manner == ChatSettings("Be brief.")


def test_a_reply_is_read_once_and_nothing_twice() -> None:
    reply = Reply()
    found = Following(StartedReply(2, ReplySettings(ModelChoice("demo"), Options()), reply))
    assert not found.read()
    reply.append(PIECE)
    assert found.read() and not found.read()
    reply.append(PIECE)
    found.read()
    assert found.state.text == "HelHel"


def test_a_continued_reply_begins_with_what_was_there() -> None:
    found = following(before=MessageContent("Well, ", "stopped"))
    assert "Well," in "".join(found.blocks)
    assert following(PIECE, before=MessageContent("Well, ", "stopped")).state.text == "Well, Hel"


def test_a_thought_is_timed_while_it_arrives() -> None:
    thinking = Piece("<think>hm</think>Yes", (1,), ("model",), replace(NUMBERS, seconds=3.11), (20,))
    assert "Thought for 3.2 s" in "".join(following(thinking).blocks)
