"""Computes the checksum of a file while it is written.

A thread reads the growing file at its own pace, so that at the end only the last bytes are left to read. Hashing
releases the GIL, so it uses another core.
"""

import hashlib
import threading
from io import FileIO
from pathlib import Path

PIECE = 1 << 20


def new_hash(digest: str, size: int) -> "hashlib._Hash":
    """Make a hash object of the kind of `digest`: SHA-256, or git's checksum for a file of this size."""
    if len(digest) == 64:
        return hashlib.sha256()
    return hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False)


def file_digest(path: Path, kind: str) -> str:
    """Return the checksum of a whole file. `kind` is any checksum of the kind to compute."""
    with GrowingFileHash(path, new_hash(kind, path.stat().st_size)) as following:
        return following.finish()


class GrowingFileHash:
    """Hashes a file on a thread while the file grows. Call `finish` once it has stopped growing."""

    def __init__(self, path: Path, into: "hashlib._Hash") -> None:
        self._path = path
        self._hash = into
        self._grew = threading.Event()
        self._ended = threading.Event()
        self._is_cancelled = threading.Event()
        self._problem: OSError | None = None
        self._thread = threading.Thread(target=self._follow, name="checksum", daemon=True)

    def __enter__(self) -> "GrowingFileHash":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_cancelled.set()
        self.grew()
        self._thread.join()

    def grew(self) -> None:
        self._grew.set()

    def finish(self) -> str:
        """Wait until the whole file is read, and return its checksum. Raises OSError if it cannot be read."""
        self._ended.set()
        self.grew()
        self._thread.join()
        if self._problem:
            raise self._problem
        return self._hash.hexdigest()

    def _follow(self) -> None:
        try:
            with self._path.open("rb", buffering=0) as file:
                while not self._is_cancelled.is_set() and not self._read_on(file):
                    self._grew.wait()
        except OSError as error:
            self._problem = error

    def _read_on(self, file: FileIO) -> bool:
        """Hash the file up to its present end. Returns whether that is the end of the complete file."""
        self._grew.clear()
        is_last = self._ended.is_set()
        piece = memoryview(bytearray(PIECE))
        while not self._is_cancelled.is_set() and (count := file.readinto(piece)):
            self._hash.update(piece[:count])
        return is_last
