"""What the worker is asked to do, besides embedding (embedding_job.py)."""

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Protocol

from app.engine.embedding_job import EmbeddingJob
from app.errors import AppError
from app.messages import Event, Failed, ModelChoice, Request
from app.step_trace import Margin


class Reply(Protocol):
    """Where a request's events go."""

    @property
    def is_stopping(self) -> bool:
        """Whether the person asked to stop."""

    def append(self, event: Event) -> None:
        """Take the next event."""


@dataclass(frozen=True, slots=True)
class Job:
    """A reply to be written."""

    request: Request
    reply: Reply


Ended = Callable[[bool], None]
"""Told whether a model was loaded, on the worker's thread unless the engine is closed."""


@dataclass(frozen=True, slots=True)
class Load:
    """A model to be loaded."""

    choice: ModelChoice
    ended: Ended


@dataclass(frozen=True, slots=True)
class Unload:
    """The model to be let go of."""


@dataclass(frozen=True, slots=True)
class Shutdown:
    """The end: nothing comes behind it."""


@dataclass(frozen=True, slots=True)
class Weigh:
    """The question how sure the model is of the token behind these."""

    request: Request
    written: tuple[int, ...]
    answer: Future[Margin]


Work = Job | Load | Unload | Weigh | EmbeddingJob


def end(job: Work, error: AppError) -> None:
    """Tell whoever waits for a job that it comes to nothing."""
    match job:
        case Job(_, reply):
            reply.append(Failed(str(error)))
        case Load(_, ended):
            ended(False)
        case Weigh(_, _, answer):
            answer.set_exception(error)
        case EmbeddingJob():
            job.end(error)
