"""Fetches a model's files into the hub's cache with range requests, several files at once.

Each file is received as a single stream, and written unbuffered into a partial file. However the process ends, the
partial file is the beginning of the real file, and its length is the position at which to resume.
"""

import asyncio
import os
import shutil
from collections.abc import Callable
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event

from huggingface_hub import hf_hub_url

from app.errors import DiskFull, ModelBroken
from app.models_registry.downloads.repo_cache import RepoCache
from app.models_registry.files.checksum import GrowingFileHash, new_hash
from app.models_registry.hub.download_plan import DownloadPlan, RemoteFile
from app.models_registry.hub.http import (
    ENOUGH,
    ROOM,
    IncompleteTransfer,
    is_retryable,
    open_stream,
    reason,
    retry_after,
)
from app.models_registry.hub.hub import Hub
from app.system.answer_limits import AnswerLimit
from app.system.files import make_folder, sync_file, sync_folder
from app.values.model import DISK_RESERVE, DiskUse, gigabytes

AT_ONCE = 4
"""Maximum number of a model's files that are fetched at the same time."""
POLL_SECONDS = 0.1
MAX_RESTARTS = 3
SYNCED = 64 * 2**20
"""Bytes after which a partial file is synced to the disk, so that a power cut loses no more than this."""


def disk_use(folder: Path) -> DiskUse:
    """Return the free and total bytes on the disk of a folder, which may not exist yet."""
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    usage = shutil.disk_usage(existing)
    return DiskUse(folder, usage.free, usage.total)


def require_space(plan: DownloadPlan, missing: int, folder: Path) -> None:
    """Raise DiskFull if `missing` more bytes and DISK_RESERVE do not fit on the disk of a folder."""
    left = disk_use(folder).free
    if missing and left < missing + DISK_RESERVE:
        raise DiskFull(
            f"{plan.repo} needs {gigabytes(missing)} more on the disk of {folder}, where {gigabytes(left)} are "
            f"free and {gigabytes(DISK_RESERVE)} should stay free: delete something there, or keep models on "
            "another disk."
        )


class InvalidPartialFile(Exception):
    """A partial file is unusable, so the file must be fetched again.

    The message is the rest of a sentence that begins with the file's name: "is longer than it should be"."""


@dataclass(slots=True)
class TransferState:
    """Downloaded bytes of each file, a note for the user, and an event that ends all transfers.

    Transfers write the bytes and the note, which the reporting thread reads; that thread sets `stop`."""

    done: dict[str, int]
    note: str = ""
    stop: Event = field(default_factory=Event)


def fetch_files(hub: Hub, plan: DownloadPlan, report: Callable[[TransferState], None]) -> Path:
    """Fetch the missing files of a model into the hub's cache and return its folder. `report` is called about ten
    times a second; an exception in it ends all transfers.

    Raises ModelError, or an error that `as_model_errors` translates."""
    cache = RepoCache(hub.root, plan.repo)
    state = TransferState({file.name: cache.stored_bytes(plan, file) for file in plan.files})
    # Files with the same checksum are fetched once.
    missing = {file.digest: file for file in plan.files if not cache.has(plan, file)}
    require_space(plan, sum(file.size - state.done[file.name] for file in missing.values()), hub.root)
    make_folder(cache.folder / "blobs")
    report(state)
    pool = ThreadPoolExecutor(AT_ONCE, "fetch")
    left = {pool.submit(_Transfer(hub, plan, file, state).run) for file in missing.values()}
    try:
        while left:
            ended, left = wait(left, POLL_SECONDS, FIRST_EXCEPTION)
            for transfer in ended:
                transfer.result()  # raises the error of a failed transfer
            report(state)
    finally:
        state.stop.set()  # ends the other transfers after their next piece
        pool.shutdown(wait=False, cancel_futures=True)
    state.done = {file.name: file.size for file in plan.files}
    report(state)
    return cache.install(plan)


@dataclass(slots=True)
class _Transfer:
    hub: Hub
    plan: DownloadPlan
    file: RemoteFile
    state: TransferState
    starts: int = 1

    @property
    def _partial(self) -> Path:
        return RepoCache(self.hub.root, self.plan.repo).partial(self.file)

    def run(self) -> None:
        """Fetch the file, check it, and rename it to its checksum.

        Raises ModelBroken if the file is unusable MAX_RESTARTS times."""
        while not self.state.stop.is_set():
            try:
                self._fetch_and_check()
                return
            except InvalidPartialFile as problem:
                self._partial.unlink(missing_ok=True)
                if self.starts == MAX_RESTARTS:
                    raise ModelBroken(
                        f"{self.file.name} of {self.plan.repo} {problem}, after {MAX_RESTARTS} tries: try again "
                        "later, or from another network."
                    ) from problem
                self.starts += 1
                self.state.done[self.file.name] = 0
                self.state.note = f"{self.file.name} {problem} and is fetched again."

    def _fetch_and_check(self) -> None:
        with self._partial.open("ab", buffering=0) as file:
            if file.tell() > self.file.size:
                raise InvalidPartialFile("is longer than it should be")
        with GrowingFileHash(self._partial, new_hash(self.file.digest, self.file.size)) as file_hash:
            self._stream_with_retries(file_hash)
            if self.state.stop.is_set():
                return
            if file_hash.finish() != self.file.digest:
                raise InvalidPartialFile("arrived damaged (its checksum is wrong)")
        sync_file(self._partial)
        self._partial.replace(RepoCache(self.hub.root, self.plan.repo).blob(self.file))
        sync_folder(self._partial.parent)

    def _stream_with_retries(self, file_hash: GrowingFileHash) -> None:
        failures, policy = 0, self.hub.retry_policy
        while (have := self._have()) < self.file.size and not self.state.stop.is_set():
            try:
                asyncio.run(self._stream(have, file_hash))
            except Exception as error:
                failures = 1 if self._have() >= have + ENOUGH else failures + 1
                if not is_retryable(error) or failures >= policy.tries:
                    raise
                seconds = policy.delay(failures, retry_after(error))
                self.state.note = (
                    f"{reason(error)}: trying again in {seconds:.0f} s ({failures} of {policy.tries})."
                )
                self.state.stop.wait(seconds)

    def _have(self) -> int:
        return self._partial.stat().st_size

    async def _stream(self, have: int, file_hash: GrowingFileHash) -> None:
        """Append the bytes from `have` on to the partial file.

        Raises IncompleteTransfer, InvalidPartialFile, TimeoutError and the hub client's errors."""
        seconds, loop = self.hub.retry_policy.read_timeout, asyncio.get_running_loop()
        limit, known = AnswerLimit(self.file.size - have + ROOM), have
        plan = self.plan
        url = hf_hub_url(plan.repo, self.file.name, revision=plan.commit, endpoint=self.hub.endpoint)
        async with asyncio.timeout(seconds) as timeout, open_stream(url, limit, have) as answer:
            if have and not answer.headers.get("Content-Range", "").startswith(f"bytes {have}-"):
                raise InvalidPartialFile("was not resumed by the hub")
            with self._partial.open("ab", buffering=0) as file:
                async for piece in answer.aiter_raw():
                    before, have = have, have + (file.write(piece) or 0)
                    if have // SYNCED > before // SYNCED:
                        os.fsync(file.fileno())
                    self.state.done[self.file.name] = min(have, self.file.size)
                    self.state.note = ""
                    file_hash.grew()
                    if have > self.file.size:
                        raise InvalidPartialFile("is longer than it should be")
                    if self.state.stop.is_set():
                        return
                    if have >= known + ENOUGH:
                        known = have
                        timeout.reschedule(loop.time() + seconds)
        if have < self.file.size:
            raise IncompleteTransfer
