"""Writes files that are complete and on the disk when a function returns, so that a power cut loses nothing."""

import errno
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

UNSUPPORTED = (errno.EINVAL, errno.ENOTSUP, errno.EACCES, errno.EPERM)
"""Errors of systems that cannot sync a folder, and of folders that this user may write to but not list."""
LONGEST_PREFIX = 40
"""Maximum number of characters that a new file's name takes from the old name; file systems allow 255 bytes."""
DEVICES = Path("/dev")


def write_file(path: Path, content: str | bytes) -> None:
    """Write a file that only this user can read. Makes its folder. Raises OSError; the old file stays then."""
    make_folder(path.parent)
    with replacing(path) as draft:
        draft.write_bytes(_bytes(content))


def write_output(path: Path, content: str | bytes) -> None:
    """Write a file whose path the user chose. Links and the permissions of an existing file stay. Raises
    OSError."""
    if DEVICES in path.absolute().parents or (path.exists() and not path.is_file()):
        path.write_bytes(_bytes(content))  # a device or a pipe, which must not be replaced by a file
        return
    with replacing_output(path) as draft:
        draft.write_bytes(_bytes(content))


@contextmanager
def replacing_output(path: Path) -> Iterator[Path]:
    """Yield a new file, as `replacing` does, for a path that the user chose. Links and permissions stay."""
    with replacing(path.resolve()) as draft:
        if path.exists():
            shutil.copymode(path, draft)
        yield draft


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a new file in the same folder, which replaces this file at the end; an error removes the new file."""
    opened, name = tempfile.mkstemp(".new", f"{path.name[:LONGEST_PREFIX]}.", path.parent)
    os.close(opened)
    draft = Path(name)
    try:
        yield draft
        sync_file(draft)
        draft.replace(path)
    except BaseException:
        with suppress(OSError):  # if nothing could be written, there may be nothing to remove
            draft.unlink()
        raise
    sync_folder(path.parent)


def make_folder(folder: Path) -> None:
    """Make a folder that only this user can read, and its missing parents. Raises OSError."""
    missing = [one for one in (folder, *folder.parents) if not one.exists()]
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for one in missing:
        sync_folder(one.parent)


def sync_file(path: Path) -> None:
    """Wait until a file's bytes are on the disk."""
    with path.open("rb+") as file:
        os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Wait until the names in a folder are on the disk, if the system supports it."""
    if os.name != "posix":  # Windows cannot open a folder
        return
    try:
        opened = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)
    except OSError as error:
        if error.errno not in UNSUPPORTED:
            raise


def _bytes(content: str | bytes) -> bytes:
    return content.encode() if isinstance(content, str) else content
