"""Files that are whole, and on the disk, once a function here returns: a power cut right after loses nothing.

a draft beside the file -> written -> fsync -> takes the file's place -> fsync of the folder
"""

import errno
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

UNSUPPORTED = (errno.EINVAL, errno.ENOTSUP, errno.EACCES, errno.EPERM)
"""What systems answer that cannot sync a folder, or let this user write into it and not list it."""
LONGEST_PREFIX = 40
"""Characters of a file's name that its draft's name begins with; file systems take 255 bytes."""
DEVICES = Path("/dev")


def write_file(path: Path, content: str | bytes) -> None:
    """Writes a file of the app that this user alone can read. Raises OSError, and then the old one is kept."""
    make_folder(path.parent)
    with replacing(path) as draft:
        draft.write_bytes(_bytes(content))


def write_output(path: Path, content: str | bytes) -> None:
    """Writes a file that the person named: a link stays a link, a file keeps its rights. Raises OSError."""
    if DEVICES in path.absolute().parents or (path.exists() and not path.is_file()):
        path.write_bytes(_bytes(content))  # a device or a pipe, which nothing may replace
        return
    with replacing_output(path) as draft:
        draft.write_bytes(_bytes(content))


@contextmanager
def replacing_output(path: Path) -> Iterator[Path]:
    """Yields a new file, as `replacing` does, for one that the person named."""
    with replacing(path.resolve()) as draft:
        if path.exists():
            shutil.copymode(path, draft)
        yield draft


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yields a new file beside this one, which takes its place at the end; an error removes the new one."""
    opened, name = tempfile.mkstemp(".new", f"{path.name[:LONGEST_PREFIX]}.", path.parent)
    os.close(opened)
    draft = Path(name)
    try:
        yield draft
        sync_file(draft)
        draft.replace(path)
    except BaseException:
        with suppress(OSError):  # where nothing can be written there may be nothing to remove
            draft.unlink()
        raise
    sync_folder(path.parent)


def make_folder(folder: Path) -> None:
    """Makes a folder, and those above it that are missing. Raises OSError."""
    missing = [one for one in (folder, *folder.parents) if not one.exists()]
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for one in missing:
        sync_folder(one.parent)


def sync_file(path: Path) -> None:
    """Waits until a file's bytes are on the disk."""
    with path.open("rb+") as file:
        os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Waits until the names in a folder are on the disk, where the system can."""
    if os.name != "posix":  # Windows opens no folder
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
