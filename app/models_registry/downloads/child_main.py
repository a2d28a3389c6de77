"""The child process of one download: reads a job on standard input, reports on standard output.

It ends when its standard input does: that is the app's end.
"""

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import Timeout

from app.errors import ModelError
from app.models_registry.downloads.child import (
    ChildMessage,
    Failed,
    Installed,
    Job,
    Moved,
    Planned,
    job_from_line,
    to_line,
)
from app.models_registry.downloads.fetching import Fetcher, Tally
from app.models_registry.downloads.repo_cache import RepoCache
from app.models_registry.hub.errors import in_words
from app.models_registry.hub.hub import Hub

Say = Callable[[ChildMessage], None]


def main() -> None:
    """Fetch what the first line of standard input asks for."""
    job = job_from_line(sys.stdin.buffer.readline())
    threading.Thread(target=_end_with_the_app, daemon=True).start()
    _run(job, _say)
    # Transfers that still wait for a silent server must not be waited for.
    sys.stdout.flush()
    os._exit(0)


def _run(job: Job, say: Say) -> None:
    try:
        say(Installed(download(job, say)))
    except ModelError as error:
        say(Failed(type(error).__name__, str(error)))


def download(job: Job, say: Say) -> Path:
    """Do a job, and say how it goes. Raises ModelError for whatever ends it."""
    hub = Hub(job.endpoint, job.root, patience=job.patience)
    repo, revision = job.wanted.repo, job.wanted.revision
    with in_words(repo, revision, hub.page(repo)):
        plan = job.plan or hub.plan(job.wanted)
        say(Planned(plan))
        with _held(RepoCache(hub.root, repo)):
            return Fetcher(job.endpoint, hub.root, job.patience).fetch(plan, _reporter(say))


@contextmanager
def _held(cache: RepoCache) -> Iterator[None]:
    try:
        with cache.lock():
            yield
    except Timeout as error:
        raise ModelError(
            f"{cache.repo} is being downloaded by another Foresight already: wait for it, or cancel it there."
        ) from error


def _reporter(say: Say) -> Callable[[Tally], None]:
    """Says what moved since the last time, if anything did."""
    told: list[Moved] = []

    def look(tally: Tally) -> None:
        news = Moved(dict(tally.done), tally.note)
        if news not in told:
            told[:] = [news]
            say(news)

    return look


def _say(message: ChildMessage) -> None:
    sys.stdout.buffer.write(to_line(message))
    sys.stdout.buffer.flush()


def _end_with_the_app() -> None:
    sys.stdin.buffer.read()
    os._exit(1)


if __name__ == "__main__":
    main()
