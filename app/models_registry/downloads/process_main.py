"""The child process of one download: reads a request from standard input, reports on standard output."""

from collections.abc import Callable
from pathlib import Path

from filelock import Timeout

from app.errors import ModelBroken, ModelError
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
from app.models_registry.downloads.resumable_fetch import TransferState, fetch_files
from app.models_registry.files.model_files import is_complete
from app.models_registry.hub.errors import as_model_errors
from app.system import child_process

Send = Callable[[DownloadMessage], None]


def fetch(line: bytes, send_line: child_process.Say) -> None:
    """Download the requested model, and send messages about its progress and its end."""

    def send(message: DownloadMessage) -> None:
        send_line(to_line(message))

    try:
        send(DownloadFinished(download(request_from_line(line), send)))
    except ModelError as error:
        send(DownloadFailed(type(error).__name__, str(error)))


def download(request: DownloadRequest, send: Send) -> Path:
    """Fetch a model, send its progress, and return its folder or GGUF file. Raises ModelError."""
    hub, repo, revision = request.hub, request.wanted.repo, request.wanted.revision
    with as_model_errors(repo, revision, hub.page(repo)):
        plan = request.plan or hub.plan(request.wanted)
        send(DownloadPlanned(plan))
        try:
            lock = RepoCache(hub.root, repo).lock().acquire()
        except Timeout as error:
            raise ModelError(
                f"{repo} is being downloaded by another Foresight already: wait for it, or cancel it there."
            ) from error
        with lock:
            path = fetch_files(hub, plan, _reporter(send)) / request.wanted.file
    if not request.wanted.file and not is_complete(path):
        raise ModelBroken(
            f"{repo} lacks some of the files that are needed to load it: delete it, then download it again."
        )
    return path


def _reporter(send: Send) -> Callable[[TransferState], None]:
    last: list[DownloadProgress] = []  # what was sent last, because only changes are sent

    def report(state: TransferState) -> None:
        progress = DownloadProgress(dict(state.done), state.note)
        if progress not in last:
            last[:] = [progress]
            send(progress)

    return report


if __name__ == "__main__":
    child_process.serve(fetch)
