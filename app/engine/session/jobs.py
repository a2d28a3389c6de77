"""The jobs of the worker, their queue, and the threads that tokenise requests before they are queued.

The tokenizer releases the interpreter's lock, so the engine's thread can decode meanwhile.
"""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from queue import Empty, PriorityQueue
from threading import Event
from typing import TYPE_CHECKING

from app.engine.embedding.job import EmbeddingJob
from app.engine.machine.device_faults import app_error
from app.errors import AppError, BadOption, GrammarRefused, PromptTooLong
from app.values.messages import EventSink, Failed, ModelChoice, RefusedPart, Request
from app.values.reply_statistics import Margin

if TYPE_CHECKING:
    from app.engine.text.prompt import RequestTokens

PAUSE = 3.0
"""Seconds without a job after which the worker begins optional work."""
LONG = 50_000
"""The number of characters above which a request's texts are long. Tokenising them takes a twentieth of a second or
more."""
CHARACTERS_OF_MESSAGE = 100
"""Characters that are added to the length of each message, because filling the template takes time, too."""

OnLoaded = Callable[[bool], None]
"""Called with True if the model was loaded, else False; on the worker's thread, unless the engine is closing."""
Tokenise = Callable[[Request], "RequestTokens"]
"""Tokenises a request. Raises AppError if the model cannot read it."""


@dataclass(frozen=True, slots=True)
class TokenisedRequest:
    """A request and its tokens, which are None if its model was not loaded."""

    request: Request
    tokens: "RequestTokens | None" = None


@dataclass(frozen=True, slots=True)
class ReplyJob:
    asked: TokenisedRequest
    reply: EventSink
    is_cancelled: Event
    """Set if loading the model for this reply was cancelled."""


@dataclass(frozen=True, slots=True)
class LoadJob:
    choice: ModelChoice
    ended: OnLoaded
    is_cancelled: Event


@dataclass(frozen=True, slots=True)
class UnloadJob:
    """The job to unload the model."""


@dataclass(frozen=True, slots=True)
class Shutdown:
    """The last job, which ends the worker."""


@dataclass(frozen=True, slots=True)
class MarginJob:
    """The job to find how sure the model is of the token after the reply's tokens `written`."""

    request: Request
    written: tuple[int, ...]
    answer: Future[Margin]


AnyJob = ReplyJob | LoadJob | UnloadJob | MarginJob | EmbeddingJob


def fail_job(job: AnyJob, error: AppError) -> None:
    match job:
        case ReplyJob(_, reply, _):
            parts: dict[type[AppError], RefusedPart]
            parts = {GrammarRefused: "grammar", PromptTooLong: "prompt", BadOption: "options"}
            refused = (part for kind, part in parts.items() if isinstance(error, kind))
            reply.append(Failed(str(error), next(refused, "")))
        case LoadJob(_, ended):
            ended(False)
        case MarginJob(_, _, answer):
            if answer.set_running_or_notify_cancel():
                answer.set_exception(error)
        case EmbeddingJob():
            job.end(error)


class JobQueue:
    """A priority queue for one thread: urgent jobs in their order of arrival, then jobs that may wait."""

    def __init__(self) -> None:
        self._waiting: PriorityQueue[tuple[bool, int, AnyJob | Shutdown]] = PriorityQueue()
        self._numbers = count()

    def put(self, job: AnyJob | Shutdown, may_wait: bool = False) -> None:
        """Add a job after earlier jobs of its kind. Jobs that may wait come after all urgent jobs."""
        self._waiting.put((may_wait, next(self._numbers), job))

    def get(self, timeout: float | None = None) -> AnyJob | Shutdown:
        """Wait for the next job, remove and return it. Raises queue.Empty after `timeout` seconds."""
        return self._waiting.get(timeout=timeout)[2]

    def get_or_work(self, work: Callable[[], float], pause: float = PAUSE) -> AnyJob | Shutdown:
        """Wait for the next job and return it. If none comes within `pause` seconds, call `work`, which returns
        the seconds to wait before its next call; 0 ends the calls."""
        while pause:
            try:
                return self.get(pause)
            except Empty:
                pause = work()
        return self.get()

    def drain(self) -> list[AnyJob | Shutdown]:
        return [self.get() for _ in range(self._waiting.qsize())]


class TokenisingThreads:
    """A thread for short texts, and another for long texts, so that a short question need not wait for a long
    document. Each starts with its first text."""

    def __init__(self) -> None:
        self._short = ThreadPoolExecutor(1, "tokens")
        self._long = ThreadPoolExecutor(1, "tokens of long texts")

    def tokenise(self, request: Request, tokenise: Tokenise | None) -> Future[TokenisedRequest]:
        """Queue a request for tokenising; without `tokenise`, or after `close`, the answer has no tokens.

        The answer can be cancelled until tokenising begins; its `result()` raises AppError if the model cannot read
        the request."""
        prompt = request.prompt
        written = [one.content for one in prompt] if isinstance(prompt, tuple) else []
        written += [prompt] if isinstance(prompt, str) else []
        texts = (*written, request.tools, request.prediction, *request.documents)
        length = sum(map(len, texts)) + CHARACTERS_OF_MESSAGE * len(written)
        thread = self._long if length > LONG else self._short
        if tokenise:
            with suppress(RuntimeError):  # raised after `close`
                return thread.submit(_tokenised, request, tokenise)
        answer: Future[TokenisedRequest] = Future()
        answer.set_result(TokenisedRequest(request))
        return answer

    def close(self) -> None:
        """End the threads after the texts that are queued already. Safe to repeat."""
        self._short.shutdown(wait=False)
        self._long.shutdown(wait=False)


def _tokenised(request: Request, tokenise: Tokenise) -> TokenisedRequest:
    try:
        return TokenisedRequest(request, tokenise(request))
    except Exception as error:
        raise app_error(error) from error
