"""The jobs of the worker, their queue, and the threads on which requests become tokens before they are queued.

    short texts    one after the other on one thread
    long texts     on another, so that a short question does not wait behind a book

The tokenizer releases the interpreter's lock, so the engine's thread writes on meanwhile. What a thread makes is
good only for the model that is loaded now: the session looks at who made it, and otherwise makes it anew.
"""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, replace
from itertools import count
from queue import Empty, PriorityQueue, SimpleQueue
from typing import TYPE_CHECKING

from app.engine.embedding.job import EmbeddingJob
from app.engine.machine.device_faults import app_error
from app.errors import AppError, BadOption, GrammarRefused, PromptTooLong
from app.values.messages import EventSink, Failed, ModelChoice, RefusedPart, Request
from app.values.trace import Margin

if TYPE_CHECKING:
    from app.engine.text.prompt import RequestTokens

PAUSE = 3.0
"""Seconds without a job after which the worker does what can wait for ever."""
LONG = 50_000
"""Characters of a text that takes its time: a twentieth of a second or more."""
CHARACTERS_OF_MESSAGE = 100
"""What a message counts besides its text: the template has work with each."""

OnLoaded = Callable[[bool], None]
"""Called with whether the model was loaded, on the worker's thread unless the engine is closed."""
Tokenise = Callable[[Request], "RequestTokens"]
"""Makes a request's texts tokens. Raises AppError for what the model cannot read."""


@dataclass(frozen=True, slots=True)
class TokenisedRequest:
    """A request with its tokens, or without them if its model was not loaded."""

    request: Request
    tokens: "RequestTokens | None" = None

    def repeated(self, request: Request) -> "TokenisedRequest":
        """Return another request with the same texts."""
        return replace(self, request=request)


@dataclass(frozen=True, slots=True)
class ReplyJob:
    """Write a reply."""

    asked: TokenisedRequest
    reply: EventSink


@dataclass(frozen=True, slots=True)
class LoadJob:
    """Load a model."""

    choice: ModelChoice
    ended: OnLoaded


@dataclass(frozen=True, slots=True)
class UnloadJob:
    """Unload the model."""


@dataclass(frozen=True, slots=True)
class Shutdown:
    """End the worker: it is the last job."""


@dataclass(frozen=True, slots=True)
class MarginJob:
    """Ask how sure the model is of the token after those that are `written`."""

    request: Request
    written: tuple[int, ...]
    answer: Future[Margin]


AnyJob = ReplyJob | LoadJob | UnloadJob | MarginJob | EmbeddingJob


def fail_job(job: AnyJob, error: AppError) -> None:
    """Report to a job's caller that it failed."""
    match job:
        case ReplyJob(_, reply):
            reply.append(Failed(str(error), _refused_part(error)))
        case LoadJob(_, ended):
            ended(False)
        case MarginJob(_, _, answer):
            answer.set_exception(error)
        case EmbeddingJob():
            job.end(error)


def _refused_part(error: AppError) -> RefusedPart:
    """The part of the request that cannot be done; "" if the request is not to blame."""
    if isinstance(error, GrammarRefused):
        return "grammar"
    if isinstance(error, PromptTooLong):
        return "prompt"
    return "options" if isinstance(error, BadOption) else ""


class JobQueue:
    """A priority queue for one thread: urgent jobs in the order they came, then those that may wait."""

    def __init__(self) -> None:
        self._waiting: PriorityQueue[tuple[bool, int, AnyJob | Shutdown]] = PriorityQueue()
        self._numbers = count()

    def put(self, job: AnyJob | Shutdown, may_wait: bool = False) -> None:
        """Add a job after those that came before, or after all others."""
        self._waiting.put((may_wait, next(self._numbers), job))

    def get(self, timeout: float | None = None) -> AnyJob | Shutdown:
        """Wait for the next job and take it out. Raises queue.Empty after this many seconds without one."""
        return self._waiting.get(timeout=timeout)[2]

    def get_or_work(self, work: Callable[[], float], pause: float = PAUSE) -> AnyJob | Shutdown:
        """Take the next job. Until it comes, call `work` half of the time; it returns its seconds, 0 ends that."""
        while pause:
            try:
                return self.get(pause)
            except Empty:
                pause = work()
        return self.get()

    def drain(self) -> list[AnyJob | Shutdown]:
        """Take out all jobs that still wait."""
        return [self.get() for _ in range(self._waiting.qsize())]


class TokenisingThreads:
    """Both threads; each starts with its first text."""

    def __init__(self) -> None:
        self._short, self._long = _TokenisingThread("tokens"), _TokenisingThread("tokens of long texts")

    def tokenise(self, request: Request, tokenise: Tokenise | None) -> Future[TokenisedRequest]:
        """Have a request's tokens made, if anybody can make them. Until that begins it can be cancelled.

        `result()` raises AppError."""
        prompt = request.prompt
        written = [prompt] if isinstance(prompt, str) else [message.content for message in prompt]
        texts = (*written, request.tools, request.prediction, *request.documents)
        length = sum(map(len, texts)) + CHARACTERS_OF_MESSAGE * len(written)
        answer: Future[TokenisedRequest] = Future()
        thread = self._long if length > LONG else self._short
        if tokenise is None or not thread.do(_Text(request, tokenise, answer)):
            answer.set_result(TokenisedRequest(request))
        return answer

    def close(self) -> None:
        """End the threads after what they were given. Safe to repeat."""
        self._short.close()
        self._long.close()


@dataclass(frozen=True, slots=True)
class _Text:
    request: Request
    tokenise: Tokenise
    answer: Future[TokenisedRequest]

    def make(self) -> None:
        if not self.answer.set_running_or_notify_cancel():
            return
        try:
            self.answer.set_result(TokenisedRequest(self.request, self.tokenise(self.request)))
        except Exception as error:
            self.answer.set_exception(app_error(error))


class _TokenisingThread:
    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._waiting: SimpleQueue[_Text | None] = SimpleQueue()
        self._is_started = self._is_closed = False

    def do(self, text: _Text) -> bool:
        """Queue a text; returns whether it will be done."""
        with self._lock:
            if self._is_closed:
                return False
            self._waiting.put(text)
            if not self._is_started:
                threading.Thread(target=self._work, name=self._name, daemon=True).start()
            self._is_started = True
            return True

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            self._waiting.put(None)

    def _work(self) -> None:
        while text := self._waiting.get():
            text.make()
            del text  # while it waits for the next one it keeps none
