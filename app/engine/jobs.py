"""What the worker is asked to do, besides embedding (embedding_job.py), and what it says of an error."""

import logging
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from itertools import count
from queue import PriorityQueue
from typing import Protocol

from app.engine.embedding_job import EmbeddingJob
from app.engine.memory import is_out_of_memory
from app.errors import AppError, ModelTooLarge, first_line
from app.messages import Event, Failed, ModelChoice, Request
from app.step_trace import Margin

log = logging.getLogger(__name__)


class EventSink(Protocol):
    """Where a request's events go."""

    @property
    def is_stopping(self) -> bool:
        """Whether the person asked to stop."""

    def append(self, event: Event) -> None:
        """Take the next event."""


@dataclass(frozen=True, slots=True)
class ReplyJob:
    """A reply to be written."""

    request: Request
    reply: EventSink


OnLoaded = Callable[[bool], None]
"""Told whether a model was loaded, on the worker's thread unless the engine is closed."""


@dataclass(frozen=True, slots=True)
class LoadJob:
    """A model to be loaded."""

    choice: ModelChoice
    ended: OnLoaded


@dataclass(frozen=True, slots=True)
class UnloadJob:
    """The model to be let go of."""


@dataclass(frozen=True, slots=True)
class Shutdown:
    """The end: nothing comes behind it."""


@dataclass(frozen=True, slots=True)
class MarginJob:
    """The question how sure the model is of the token behind these."""

    request: Request
    written: tuple[int, ...]
    answer: Future[Margin]


AnyJob = ReplyJob | LoadJob | UnloadJob | MarginJob | EmbeddingJob


def fail_job(job: AnyJob, error: AppError) -> None:
    """Tell whoever waits for a job that it comes to nothing."""
    match job:
        case ReplyJob(_, reply):
            reply.append(Failed(str(error)))
        case LoadJob(_, ended):
            ended(False)
        case MarginJob(_, _, answer):
            answer.set_exception(error)
        case EmbeddingJob():
            job.end(error)


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


def sentence_of(error: Exception) -> str:
    """An error in words. What nobody foresaw goes to the log with its traceback."""
    if isinstance(error, AppError):
        return str(error)
    if is_out_of_memory(error):
        return str(
            ModelTooLarge(
                "Memory ran out: choose a smaller model, a shorter chat, or close other programs, then try again."
            )
        )
    log.exception("a request failed", exc_info=error)
    return f"Something went wrong inside Foresight ({type(error).__name__}: {error}): please try again."


class JobQueue:
    """A priority queue for one thread: urgent jobs in the order they came, then those that may wait."""

    def __init__(self) -> None:
        self._waiting: PriorityQueue[tuple[bool, int, AnyJob | Shutdown]] = PriorityQueue()
        self._numbers = count()

    def put(self, job: AnyJob | Shutdown, may_wait: bool = False) -> None:
        """Add a job behind those that came before, or behind all others."""
        self._waiting.put((may_wait, next(self._numbers), job))

    def get(self) -> AnyJob | Shutdown:
        """Wait for the next job and take it out."""
        return self._waiting.get()[2]

    def drain(self) -> list[AnyJob | Shutdown]:
        """Take out all jobs that still wait."""
        return [self.get() for _ in range(self._waiting.qsize())]
