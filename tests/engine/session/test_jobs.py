"""The threads on which requests become tokens: a short one waits for no long one, and each gets its own answer."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import pytest

from app.engine.embedding.job import EmbeddingJob
from app.engine.session.jobs import LONG, JobQueue, Shutdown, TokenisingThreads, UnloadJob
from app.engine.text.prompt import RequestTokens
from app.errors import AppError, PromptTooLong
from app.values.messages import Message, ModelChoice, ModelFolder, Request
from tests.support.waiting import new_threads, until

SECONDS = 300.0
SHORT_TEXT, LONG_TEXT = Request(ModelChoice("m"), "short"), Request(ModelChoice("m"), "long " * LONG)
TOKENS = cast(RequestTokens, object())


class SlowTokenizer:
    """Waits at long texts until it is opened."""

    def __init__(self) -> None:
        self.entered, self.opened = threading.Event(), threading.Event()
        self.seen: list[Request] = []

    def tokens(self, request: Request) -> RequestTokens:
        self.seen.append(request)
        if request is LONG_TEXT:
            self.entered.set()
            assert self.opened.wait(SECONDS)
        return TOKENS


@contextmanager
def busy(threads: TokenisingThreads) -> Iterator[SlowTokenizer]:
    """With a long text on its way."""
    slow = SlowTokenizer()
    threads.tokenise(LONG_TEXT, slow.tokens)
    assert slow.entered.wait(SECONDS)
    yield slow
    slow.opened.set()


def test_a_short_text_waits_for_no_long_one() -> None:
    with busy(threads := TokenisingThreads()) as slow:
        made = threads.tokenise(SHORT_TEXT, slow.tokens).result(SECONDS)
        assert (made.request, made.tokens) == (SHORT_TEXT, TOKENS)


@pytest.mark.parametrize(
    "other",
    [
        Request(ModelChoice("m"), (Message("user", "x" * LONG),)),
        Request(ModelChoice("m"), (Message("user", "x"),) * LONG),
        Request(ModelChoice("m"), "x", tools="x" * LONG),
        Request(ModelChoice("m"), "x", prediction="x" * LONG),
        Request(ModelChoice("m"), "x", documents=("x" * LONG,)),
    ],
)
def test_whatever_is_long_is_made_one_after_the_other(other: Request) -> None:
    with busy(threads := TokenisingThreads()) as slow:
        waiting = threads.tokenise(other, slow.tokens)
        threads.tokenise(SHORT_TEXT, slow.tokens).result(SECONDS)
        assert not waiting.done()
    assert waiting.result(SECONDS).request == other


def test_who_has_gone_is_not_waited_for() -> None:
    with busy(threads := TokenisingThreads()) as slow:
        gone = threads.tokenise(Request(ModelChoice("m"), "gone " * LONG), slow.tokens)
        assert gone.cancel()
        last = threads.tokenise(Request(ModelChoice("m"), "last " * LONG), slow.tokens)
    assert last.result(SECONDS)
    assert [request.prompt[:4] for request in slow.seen] == ["long", "last"]


def test_a_refusal_is_its_own_requests_and_the_next_one_is_made() -> None:
    def refuse(_request: Request) -> RequestTokens:
        raise PromptTooLong(9, 8)

    threads = TokenisingThreads()
    assert isinstance(threads.tokenise(SHORT_TEXT, refuse).exception(SECONDS), PromptTooLong)
    assert threads.tokenise(SHORT_TEXT, SlowTokenizer().tokens).result(SECONDS).tokens is TOKENS


def test_whatever_fails_is_a_sentence() -> None:
    def fail(_request: Request) -> RequestTokens:
        raise ZeroDivisionError("division by zero")

    error = TokenisingThreads().tokenise(SHORT_TEXT, fail).exception(SECONDS)
    assert isinstance(error, AppError) and "inside Foresight (ZeroDivisionError" in str(error)


def test_closed_threads_end_behind_their_last_text_and_take_no_more() -> None:
    before = new_threads([])
    with busy(threads := TokenisingThreads()) as slow:
        last = threads.tokenise(Request(ModelChoice("m"), "last " * LONG), slow.tokens)
        threads.close()
        late = threads.tokenise(LONG_TEXT, slow.tokens)
        assert (late.done(), late.result().tokens) == (True, None)
    assert last.result(SECONDS).tokens is TOKENS
    until(lambda: not new_threads(before))


def test_without_a_tokenizer_the_request_comes_back_at_once() -> None:
    made = TokenisingThreads().tokenise(LONG_TEXT, None)
    assert (made.done(), made.result().tokens) == (True, None)


def test_work_is_done_after_a_pause_and_until_there_is_a_job_or_no_work_is_left() -> None:
    queue, job, seconds = JobQueue(), UnloadJob(), [0.001, 0.001, 0.0]
    queue.put(job)
    assert queue.get_or_work(lambda: seconds.pop(0)) is job
    assert len(seconds) == 3, "a job comes first"

    def work() -> float:
        if len(seconds) == 1:
            queue.put(job)
        return seconds.pop(0)

    assert queue.get_or_work(work, 0.001) is job
    assert seconds == []


def test_what_may_wait_goes_behind_what_came_later() -> None:
    queue, folder = JobQueue(), ModelFolder(Path(), name="sentences")
    texts, more = EmbeddingJob(folder, ["one"]), EmbeddingJob(folder, ["two"])
    first, last = UnloadJob(), Shutdown()
    queue.put(texts, may_wait=True)
    queue.put(first)
    queue.put(more, may_wait=True)
    queue.put(last)
    assert queue.get() is first
    assert queue.drain() == [last, texts, more]
    assert queue.drain() == []
