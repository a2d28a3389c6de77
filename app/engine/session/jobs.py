"""The jobs of the worker besides embedding (embedding_job.py), their queue, and sentences for errors."""

import logging
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, replace
from itertools import count
from queue import Empty, PriorityQueue
from threading import Event as Flag
from typing import TYPE_CHECKING, Protocol

from app.engine.embedding.job import EmbeddingJob
from app.engine.machine.device_faults import is_device_fault
from app.engine.machine.memory import is_out_of_memory, is_uninitialised
from app.errors import (
    AppError,
    BadOption,
    EngineClosed,
    GrammarRefused,
    ModelTooLarge,
    PromptTooLong,
    first_line,
)
from app.values.messages import Event, Failed, Loading, ModelChoice, RefusedPart, Request
from app.values.trace import Margin

if TYPE_CHECKING:
    from app.engine.session.request_tokens import RequestTokens

log = logging.getLogger(__name__)

PAUSE = 3.0
"""Seconds without a job after which the worker does what can wait for ever."""


@dataclass(frozen=True, slots=True)
class TokenisedRequest:
    """A request with its tokens, or without where its model was not loaded."""

    request: Request
    tokens: "RequestTokens | None" = None

    def repeated(self, request: Request) -> "TokenisedRequest":
        """Another request with the same texts."""
        return replace(self, request=request)


class EventSink(Protocol):
    """Where a request's events go."""

    @property
    def is_stopping(self) -> bool:
        """Whether the person asked to stop."""

    def append(self, event: Event) -> None:
        """Take the next event."""


@dataclass(frozen=True, slots=True)
class ReplyJob:
    """Write a reply."""

    asked: "TokenisedRequest"
    reply: EventSink


OnLoaded = Callable[[bool], None]
"""Called with whether the model was loaded, on the worker's thread unless the engine is closed."""


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
    """Ask how sure the model is of the token behind these."""

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
    """What of the request cannot be done; "" where the request is not to blame."""
    if isinstance(error, GrammarRefused):
        return "grammar"
    if isinstance(error, PromptTooLong):
        return "prompt"
    return "options" if isinstance(error, BadOption) else ""


def refusal_of(error: Exception) -> AppError:
    """Why there is no engine in this process."""
    if is_out_of_memory(error):
        return ModelTooLarge(
            "There is not enough memory to start the engine: close other programs, then start Foresight again."
        )
    log.exception("the engine could not start", exc_info=error)
    return AppError(
        f"The engine could not start ({first_line(error)}): set Foresight up again as its README says."
    )


def sentence_of(error: BaseException) -> str:
    """An error as a sentence. An unexpected one is logged with its traceback."""
    if isinstance(error, AppError):
        return str(error)
    if is_uninitialised(error):
        log.exception("cuBLAS could not start", exc_info=error)
        return (
            f"The matrix library of the graphics card could not start ({first_line(error)[:200]}): close other "
            "programs that use it, then restart Foresight. If it fails again, choose --device cpu."
        )
    if is_out_of_memory(error):
        return str(
            ModelTooLarge(
                "Memory ran out: choose a smaller model, a shorter chat, or close other programs, then try again."
            )
        )
    log.exception("a request failed", exc_info=error)
    if is_device_fault(error):
        return f"The graphics card stopped working for this process ({first_line(error)}): restart Foresight."
    return f"Something went wrong inside Foresight ({type(error).__name__}: {error}): please try again."


def app_error(error: BaseException) -> AppError:
    """An error as one that a caller gets: a sentence."""
    return error if isinstance(error, AppError) else AppError(sentence_of(error))


def report_loaded(ended: OnLoaded, is_loaded: bool) -> str:
    """Call the listener of a load; returns its error as a sentence."""
    try:
        ended(is_loaded)
        return ""
    except Exception as error:
        return sentence_of(error)


class ReplyStop:
    """A request's stop signal: the person's wish to stop its reply, or the engine's end."""

    def __init__(self, reply: EventSink, is_closing: Flag) -> None:
        self._reply = reply
        self._is_closing = is_closing

    @property
    def is_stopping(self) -> bool:
        """Whether the person asked to stop, or the engine closes."""
        return self._reply.is_stopping or self._is_closing.is_set()

    def loading(self, event: Loading) -> None:
        """Pass loading's progress on, or end it when the person stopped meanwhile."""
        if self.is_stopping:
            raise EngineClosed("Stopped while the model was loading. Send the message again.")
        self._reply.append(event)


class JobQueue:
    """A priority queue for one thread: urgent jobs in the order they came, then those that may wait."""

    def __init__(self) -> None:
        self._waiting: PriorityQueue[tuple[bool, int, AnyJob | Shutdown]] = PriorityQueue()
        self._numbers = count()

    def put(self, job: AnyJob | Shutdown, may_wait: bool = False) -> None:
        """Add a job behind those that came before, or behind all others."""
        self._waiting.put((may_wait, next(self._numbers), job))

    def get(self, timeout: float | None = None) -> AnyJob | Shutdown:
        """Wait for the next job and take it out. Raises queue.Empty after so many seconds without one."""
        return self._waiting.get(timeout=timeout)[2]

    def get_or_work(self, work: Callable[[], float], pause: float = PAUSE) -> AnyJob | Shutdown:
        """The next job. Until it comes `work` is called, half of the time, and returns its seconds; 0 ends that."""
        while pause:
            try:
                return self.get(pause)
            except Empty:
                pause = work()
        return self.get()

    def drain(self) -> list[AnyJob | Shutdown]:
        """Take out all jobs that still wait."""
        return [self.get() for _ in range(self._waiting.qsize())]
