"""Copies of files that wait to be imported, so that the user may move or delete the originals."""

import errno
import re
import shutil
import time
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

from app.errors import DocumentUnreadable, StoreFull, StoreNotUsable
from app.system.files import make_folder, sync_file, sync_folder
from app.values.text_normalisation import shown_name

PENDING_FOLDER = "documents-inbox"
MAX_BYTES = 300 * 2**20
"""Bytes of the largest file that is imported."""
MAX_SUFFIX = 16
"""Characters of a file's suffix that are kept."""
DRAFT = re.compile(r"draft-[0-9a-f]{32}")
ABANDONED = 24 * 3600.0
"""Seconds after which a draft is abandoned."""


class PendingFiles:
    """A folder with a file for each document that is not imported yet, named by the document's id."""

    def __init__(self, data_dir: Path) -> None:
        self._folder = data_dir / PENDING_FOLDER

    def lock_file(self) -> Path:
        """The lock of the processes that work on these documents."""
        self._make_folder()
        return self._folder / "lock"

    def path(self, document: int, source: str) -> Path:
        """The file of a document; its suffix tells how it is read."""
        return self._folder / f"{document}{Path(source).suffix.lower()[:MAX_SUFFIX]}"

    def copy(self, file: Path) -> Path:
        """A copy of a file in this folder, for `keep`. Raises DocumentUnreadable or StoreFull."""
        self._make_folder()
        draft = self._folder / f"draft-{uuid4().hex}"
        try:
            shutil.copyfile(file, draft)
            sync_file(draft)
        except OSError as error:
            with suppress(OSError):  # where nothing can be written there may be nothing to remove
                draft.unlink(missing_ok=True)
            if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                raise StoreFull(
                    f"{self._folder} has no room for {shown_name(file.name)}: free some space."
                ) from error
            if error.filename == str(draft):
                raise self.not_usable(error) from error
            raise DocumentUnreadable(f"{shown_name(str(file))} cannot be read ({error.strerror}).") from error
        return draft

    def keep(self, draft: Path, document: int, source: str) -> None:
        """Make a copy the file of a document, on the disk. Raises StoreNotUsable."""
        try:
            draft.replace(self.path(document, source))
            sync_folder(self._folder)
        except OSError as error:
            raise self.not_usable(error) from error

    def drop(self, document: int) -> None:
        """Delete the file of a document, if it is here."""
        for path in self._files():
            if document_of(path) == document:
                path.unlink(missing_ok=True)

    def keep_only(self, wanted: set[int], last: int) -> None:
        """Delete the files of all other documents, of which `last` is the newest, and abandoned drafts."""
        for path in self._files():
            if document_of(path) <= last and document_of(path) not in wanted:
                path.unlink(missing_ok=True)
        for draft in self._folder.glob("draft-*"):
            if DRAFT.fullmatch(draft.name) and time.time() - draft.stat().st_mtime > ABANDONED:
                draft.unlink(missing_ok=True)

    def _files(self) -> list[Path]:
        return [path for path in self._folder.iterdir() if document_of(path)] if self._folder.is_dir() else []

    def not_usable(self, error: OSError) -> StoreNotUsable:
        """The sentence for a folder that the system does not let us use."""
        return StoreNotUsable(
            f"The folder {self._folder} cannot be used ({error.strerror}): let this user write it, "
            "or choose another one with --data-dir."
        )

    def _make_folder(self) -> None:
        try:
            make_folder(self._folder)
        except OSError as error:
            raise self.not_usable(error) from error


def document_of(path: Path) -> int:
    """The document of a file; 0 for other files."""
    number = path.name.partition(".")[0]
    return int(number) if number.isdecimal() else 0


def require_file(path: Path) -> None:
    """Raise DocumentUnreadable for a path that is not a file, or a file that is too large."""
    place = shown_name(str(path))
    try:
        if not path.exists():
            raise DocumentUnreadable(f"There is no file {place}: check its name.")
        if not path.is_file():
            raise DocumentUnreadable(f"{place} is not a file: choose files, not folders.")
        size = path.stat().st_size
    except OSError as error:
        raise DocumentUnreadable(f"{place} cannot be read ({error.strerror}).") from error
    if size > MAX_BYTES:
        raise DocumentUnreadable(
            f"{shown_name(path.name)} has {size / 2**20:,.0f} MB, and files up to {MAX_BYTES / 2**20:,.0f} MB "
            "can be read: split it, or paste the part that matters."
        )
