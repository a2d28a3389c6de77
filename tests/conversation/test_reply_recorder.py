"""A reply on its way to the store: what is kept while it is written, and at its end."""

import threading
from dataclasses import replace

from app.conversation import Reply
from app.conversation.reply_recorder import ReplyDraft, ReplyRecorder, comparison_in_words
from app.errors import StoreFull
from app.values.chat import MessageContent, Provenance, TokenMark
from app.values.messages import (
    DecoderName,
    Event,
    Failed,
    Finished,
    Options,
    Origin,
    Piece,
    Prefilling,
    Statistics,
    StopReason,
)
from tests.fakes import DEMO
from tests.support.waiting import until


def piece(text: str, ends: tuple[int, ...], origins: tuple[Origin, ...], seconds: float = 0.0) -> Piece:
    return Piece(text, tuple(range(len(ends))), origins, Statistics(seconds=seconds), ends)


def finished(reason: StopReason = "eos") -> Finished:
    return Finished(reason, Statistics(tokens=3, steps=2), DEMO, "auto")


def drafted(*events: Event, before: MessageContent | None = None) -> MessageContent:
    draft = ReplyDraft(Options(), before)
    draft.take(events)
    return draft.content()


HELLO = piece("Hello", (5,), ("model",))
THERE = piece(" there you", (6, 10), ("window", "model"))


def test_every_token_is_marked_with_its_end_its_origin_and_its_step() -> None:
    written = drafted(Prefilling(3, 3), HELLO, THERE)
    assert written.text == "Hello there you"
    assert written.marks == (TokenMark(5, "model", 0), TokenMark(11, "window", 1), TokenMark(15, "model", 1))
    assert written.state == "writing"


def test_text_that_was_held_back_belongs_to_the_last_token() -> None:
    written = drafted(HELLO, Piece("!", (), (), Statistics()), finished())
    assert written.text == "Hello!"
    assert written.marks == (TokenMark(6, "model", 0),)


def test_a_finished_reply_says_where_it_came_from() -> None:
    provenance = drafted(HELLO, finished()).provenance
    assert provenance is not None
    assert (provenance.model, provenance.decoder, provenance.reason) == (DEMO, "auto", "eos")
    assert provenance.options == Options()
    assert provenance.app


def test_stopped_and_failed_replies_keep_what_was_written() -> None:
    assert drafted(HELLO, finished("stopped")).state == "stopped"
    failed = drafted(HELLO, Failed("Memory ran out."))
    assert (failed.text, failed.state, failed.note) == ("Hello", "failed", "Memory ran out.")


def test_a_continued_reply_goes_on_behind_what_was_there() -> None:
    written = drafted(THERE, finished(), before=drafted(HELLO, finished("stopped")))
    assert written.text == "Hello there you"
    assert written.marks == (TokenMark(5, "model", 0), TokenMark(11, "window", 1), TokenMark(15, "model", 1))


def test_what_was_good_before_it_was_continued_stays_so_when_that_fails() -> None:
    before = drafted(HELLO, finished("max_tokens"))
    unfinished = drafted(THERE, before=before)
    assert unfinished.provenance == before.provenance, "a program that is killed now has lost nothing of it"
    failed = drafted(THERE, Failed("Memory ran out."), before=before)
    assert (failed.text, failed.state, failed.note) == ("Hello there you", "stopped", "Memory ran out.")
    assert failed.provenance == before.provenance


def test_thinking_is_timed_to_its_end() -> None:
    written = drafted(piece("<think>hm</th", (13,), ("model",), 1.0), piece("ink>Yes", (7,), ("model",), 2.5))
    assert written.thought == 2.5
    assert drafted(HELLO).thought == 0


class Store:
    """Remembers what it was given; fails while it is full."""

    def __init__(self, is_full: bool = False) -> None:
        self.given: list[MessageContent] = []
        self.refused = 0
        self.problems: list[str] = []
        self.is_full = is_full
        self._is_done = threading.Event()

    def write(self, written: MessageContent) -> None:
        if self.is_full:
            self.refused += 1
            raise StoreFull("The disk is full: free some space.")
        self.given.append(written)

    def done(self, problem: str) -> None:
        self.problems.append(problem)
        self._is_done.set()

    def wait(self) -> list[str]:
        """What stood in the way, once the recorder has ended."""
        assert self._is_done.wait(300)
        return self.problems


def test_the_end_of_a_reply_is_stored_at_once() -> None:
    store, reply = Store(), Reply()
    ReplyRecorder(reply, ReplyDraft(Options()), store.write, store.done)
    for event in (HELLO, THERE, finished()):
        reply.append(event)
    assert store.wait() == [""]
    assert (store.given[-1].text, store.given[-1].state) == ("Hello there you", "done")


def test_a_reply_is_stored_as_far_as_it_is_about_once_a_second() -> None:
    store, reply = Store(), Reply()
    recorder = ReplyRecorder(reply, ReplyDraft(Options()), store.write, store.done)
    reply.append(HELLO)
    waited = threading.Event()
    for _ in range(30):
        waited.wait(0.1)
        if store.given:
            break
        reply.append(piece(" x", (2,), ("model",)))
    assert store.given[0].state == "writing"
    assert store.given[0].text.startswith("Hello x")
    reply.append(finished())
    recorder.join(300)


def test_what_came_last_is_stored_within_a_second_though_nothing_follows_it() -> None:
    store, reply = Store(), Reply()
    recorder = ReplyRecorder(reply, ReplyDraft(Options()), store.write, store.done)
    reply.append(HELLO)
    until(lambda: store.given)
    assert [(one.text, one.state) for one in store.given] == [("Hello", "writing")]
    reply.append(finished())
    recorder.join(300)


def test_a_disk_that_is_full_ends_the_recording_and_says_why() -> None:
    store, reply = Store(is_full=True), Reply()
    ReplyRecorder(reply, ReplyDraft(Options()), store.write, store.done)
    reply.append(finished())
    assert store.wait() == ["The disk is full: free some space."]


def test_a_disk_that_has_room_again_gets_the_whole_reply() -> None:
    store, reply = Store(is_full=True), Reply()
    ReplyRecorder(reply, ReplyDraft(Options()), store.write, store.done)
    waited = threading.Event()
    for _ in range(30):
        reply.append(HELLO)
        waited.wait(0.1)
        if store.refused:
            break
    store.is_full = False
    reply.append(finished())
    assert store.wait() == [""]
    assert store.given[-1].state == "done"


def reply_by(text: str, decoder: DecoderName, seconds: float, dtype: str = "float32") -> MessageContent:
    model, numbers = replace(DEMO, dtype=dtype), Statistics(tokens=9, steps=9, seconds=seconds)
    return MessageContent(text, "done", provenance=Provenance(model, Options(), decoder, "eos", numbers))


FAST, SLOW = reply_by("One two three", "auto", 8.1), reply_by("One two three", "plain", 12.4)


def test_the_same_text_is_one_line_with_both_times_in_either_order() -> None:
    words = "Same text: 8.1 s with lookahead against 12.4 s without."
    assert comparison_in_words(FAST, SLOW) == comparison_in_words(SLOW, FAST) == words


def test_other_text_is_told_from_where_it_differs_and_why() -> None:
    words = comparison_in_words(FAST, replace(SLOW, text="One two four"))
    assert words.startswith("The texts differ after 2 words (8.1 s with lookahead against 12.4 s without).")
    assert "In float32 they must be the same" in words
    half = reply_by("Other", "auto", 8.1, "bfloat16"), reply_by("text", "plain", 8.1, "bfloat16")
    assert "after 0 words" in comparison_in_words(*half)
    assert "In bfloat16 the size of a step may change how numbers are rounded." in comparison_in_words(*half)
