"""Room on the disk: asked before a download, and told in a sentence when it runs out all the same."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from app.errors import DiskFull
from app.model_messages import DiskUse, gigabytes
from app.models_registry.hub.errors import OUT_OF_SPACE
from app.models_registry.hub.plan import Plan

RESERVE = 200_000_000
"""Bytes that stay free for everything else on the disk."""

Free = Callable[[Path], int]
"""How many bytes are free on the disk of this folder, which need not exist yet."""


def disk_use(folder: Path) -> DiskUse:
    """The folder's disk; the folder need not exist yet."""
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    usage = shutil.disk_usage(existing)
    return DiskUse(folder, usage.free, usage.total)


def free_bytes(folder: Path) -> int:
    """Bytes free on the folder's disk."""
    return disk_use(folder).free


def require_space(plan: Plan, missing: int, folder: Path, free: Free) -> None:
    """Raise DiskFull when the rest of a download would not fit."""
    left = free(folder)
    if missing and left < missing + RESERVE:
        raise DiskFull(
            f"{plan.repo} needs {gigabytes(missing)} more on the disk of {folder}, where {gigabytes(left)} are "
            f"free and {gigabytes(RESERVE)} should stay so: delete something there, or keep models on another disk."
        )


@contextmanager
def disk_full(repo: str) -> Iterator[None]:
    """Turn a disk that has run full into DiskFull."""
    try:
        yield
    except OSError as error:
        if error.errno not in OUT_OF_SPACE:
            raise
        raise DiskFull(
            f"The disk ran full while {repo} was coming: free some space and resume. What has come is kept."
        ) from error
