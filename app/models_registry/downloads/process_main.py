"""The child process of one download: reads a job on standard input, reports on standard output."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import Timeout

from app import child_process
from app.errors import ModelError
from app.models_registry.downloads.fetcher import Fetcher, TransferState
from app.models_registry.downloads.process import (
    DownloadFailed,
    DownloadFinished,
    DownloadMessage,
    DownloadPlanned,
    DownloadProgress,
    DownloadRequest,
    request_from_line,
    to_line,
)
from app.models_registry.downloads.repo_cache import RepoCache
from app.models_registry.hub.errors import as_model_errors
from app.models_registry.hub.hub import Hub

Say = Callable[[DownloadMessage], None]


def fetch(line: bytes, say_line: child_process.Say) -> None:
    """Fetch what a job asks for, and say what came of it."""

    def say(message: DownloadMessage) -> None:
        say_line(to_line(message))

    try:
        say(DownloadFinished(download(request_from_line(line), say)))
    except ModelError as error:
        say(DownloadFailed(type(error).__name__, str(error)))


def download(job: DownloadRequest, say: Say) -> Path:
    """Do a job, and say how it goes. Raises ModelError for whatever ends it."""
    hub = Hub(job.endpoint, job.root, backoff=job.backoff)
    repo, revision = job.wanted.repo, job.wanted.revision
    with as_model_errors(repo, revision, hub.page(repo)):
        plan = job.plan or hub.plan(job.wanted)
        say(DownloadPlanned(plan))
        with _held(RepoCache(hub.root, repo)):
            return Fetcher(job.endpoint, hub.root, job.backoff).fetch(plan, _reporter(say))


@contextmanager
def _held(cache: RepoCache) -> Iterator[None]:
    try:
        with cache.lock():
            yield
    except Timeout as error:
        raise ModelError(
            f"{cache.repo} is being downloaded by another Foresight already: wait for it, or cancel it there."
        ) from error


def _reporter(say: Say) -> Callable[[TransferState], None]:
    """Says what moved since the last time, if anything did."""
    told: list[DownloadProgress] = []

    def look(tally: TransferState) -> None:
        news = DownloadProgress(dict(tally.done), tally.note)
        if news not in told:
            told[:] = [news]
            say(news)

    return look


if __name__ == "__main__":
    child_process.serve(fetch)
