"""One model in the hub's cache, in the layout of huggingface_hub.

models--org--name/
    blobs/<checksum>                              a file's bytes
    blobs/<checksum>.foresight.incomplete         the bytes downloaded so far
    snapshots/<commit>/<file name>                a link to the blob, made when all blobs are checked
    refs/main                                     the commit of "main" when the model was fetched
"""

import os
import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout

from app.models_registry.hub.download_plan import DownloadPlan, RemoteFile
from app.models_registry.hub.hub import PREFIX
from app.system.files import make_folder, sync_folder, write_file

PARTIAL = ".foresight.incomplete"


@dataclass(frozen=True, slots=True)
class RepoCache:
    """The folder of one model below the cache's `root`."""

    root: Path
    repo: str

    @property
    def folder(self) -> Path:
        return self.root / (PREFIX + self.repo.replace("/", "--"))

    def blob(self, file: RemoteFile) -> Path:
        return self.folder / "blobs" / file.digest

    def partial(self, file: RemoteFile) -> Path:
        return self.folder / "blobs" / (file.digest + PARTIAL)

    def snapshot(self, commit: str) -> Path:
        """Return the folder from which the model is loaded at this commit."""
        return self.folder / "snapshots" / commit

    def lock(self) -> FileLock:
        """Return the lock to acquire while this model is downloaded; the end of the process releases it."""
        locks = self.root / ".locks" / self.folder.name
        locks.mkdir(parents=True, exist_ok=True)
        return FileLock(locks / "foresight.lock", timeout=0)

    def has(self, plan: DownloadPlan, file: RemoteFile) -> bool:
        """Return whether the cache has a file of the right size."""
        paths = self.blob(file), self.snapshot(plan.commit) / file.name
        return any(path.exists() and path.stat().st_size == file.size for path in paths)

    def stored_bytes(self, plan: DownloadPlan, file: RemoteFile) -> int:
        if self.has(plan, file):
            return file.size
        partial = self.partial(file)
        return min(partial.stat().st_size, file.size) if partial.exists() else 0

    def install(self, plan: DownloadPlan) -> Path:
        """Link the plan's complete files into its snapshot, and write its ref. Returns the snapshot's folder."""
        snapshot = self.snapshot(plan.commit)
        make_folder(snapshot)
        for file in plan.files:
            pointer = snapshot / file.name
            make_folder(pointer.parent)
            _link(self.blob(file), pointer)
        for folder in {(snapshot / file.name).parent for file in plan.files}:
            sync_folder(folder)
        if plan.revision != plan.commit:
            write_file(self.folder / "refs" / plan.revision, plan.commit)
        return snapshot

    def forget(self, plan: DownloadPlan) -> None:
        """Delete the files of a cancelled download, except those to which a snapshot links.

        Deletes nothing while another program downloads the model."""
        try:
            with self.lock():
                linked = {path.resolve().name for path in self.folder.glob("snapshots/*/**/*")}
                for file in plan.files:
                    self.partial(file).unlink(missing_ok=True)
                    if file.digest not in linked:
                        self.blob(file).unlink(missing_ok=True)
        except Timeout:  # another program is downloading it, and needs the files
            return
        lock = self.root / ".locks" / self.folder.name
        (lock / "foresight.lock").unlink(missing_ok=True)
        for folder in (self.folder / "blobs", self.folder, lock, lock.parent):
            with suppress(OSError):  # not empty, or not there
                folder.rmdir()


def _link(blob: Path, pointer: Path) -> None:
    if pointer.exists() and not blob.exists():  # a cache without links keeps the bytes here
        return
    with suppress(FileNotFoundError):
        pointer.unlink()
    try:
        pointer.symlink_to(os.path.relpath(blob, pointer.parent))
    except OSError:  # on Windows without the right to make links, move the blob, as the hub's client does
        shutil.move(blob, pointer)
