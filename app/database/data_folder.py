"""Finds the data folder, checks that it is the app's own, and locks it for one process.

A folder is the app's own if it has the app's database or a marker file, which the app writes into it first."""

import logging
import os
import re
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

from filelock import FileLock, Timeout

from app.database.files import FILE_NAME
from app.database.migrations import has_chat_tables
from app.database.restoring import KEPT, RESCUED, STAGED
from app.errors import DataFolderInUse, DataFolderRefused, SettingsNotSaved
from app.system.files import make_folder, write_file

log = logging.getLogger(__name__)
MARKER = "foresight-data-folder.txt"
MARK = "This is the data folder of Foresight.\n"
MARKER_TEXT = (
    f"{MARK}Foresight keeps its chats, documents and settings here, and knows the folder by this file.\n"
)
FOLDERS = ("backups", "documents-inbox", "downloads", "gradio", "logs", "steps", "window")
"""The names of the folders that the app makes in the data folder."""
FILES = re.compile(
    rf"{re.escape(FILE_NAME)}(-wal|-shm|\.broken-[0-9-]+(-wal|-shm)?)?|{re.escape(STAGED)}"
    rf"|({KEPT}|{RESCUED})[0-9-]+\..*"
    rf"|(settings|servers)\.json(\.broken)?|api-key|in-use\.(lock|address)|{re.escape(MARKER)}"
)
"""The names of the files that the app makes in the data folder."""
LITTER = (".DS_Store", ".localized", "desktop.ini", "Thumbs.db", "lost+found")
"""Files and folders that operating systems put into folders by themselves."""
SHOWN = 3
"""Maximum number of names of foreign files in a message."""


def default_data_dir() -> Path:
    """Returns the platform's usual folder for the app's data."""
    import platformdirs  # imported here, because tools/gpu_report runs without it

    return Path(platformdirs.user_data_dir("foresight", appauthor=False)).absolute()


def data_dir_or_default(chosen: Path | None) -> Path:
    """Returns the chosen folder or the default folder. Makes the folder and marks it as the app's own.

    Raises DataFolderRefused."""
    return _marked(_expanded(chosen) if chosen else default_data_dir(), is_optional=False)


def optional_data_dir(chosen: Path | None = None) -> Path:
    """Returns the same folder as `data_dir_or_default`, even if the default folder cannot be made or marked.

    Raises DataFolderRefused."""
    return data_dir_or_default(chosen) if chosen else _marked(default_data_dir(), is_optional=True)


def _expanded(path: Path) -> Path:
    known = Path(os.path.expanduser(path))  # noqa: PTH111 - Path's own fails on an unknown ~user
    return known.resolve() if ".." in known.parts else known.absolute()


def _marked(folder: Path, is_optional: bool) -> Path:
    _require_own(folder)
    try:
        if not _is_marked(folder):
            make_folder(folder)
            write_file(folder / MARKER, MARKER_TEXT)
    except OSError as error:
        if not is_optional:
            raise DataFolderRefused(
                f"The data folder {folder} cannot be used ({error.strerror}). Give this user write permission, or "
                "choose another folder with --data-dir."
            ) from error
    return folder


def _require_own(folder: Path) -> None:
    """Raises DataFolderRefused for a folder that cannot be read, or must not be used (see `_refusal`)."""
    try:
        if not folder.exists() or _is_marked(folder):
            return
        if not folder.is_dir():
            raise DataFolderRefused(
                f"The data folder {folder} cannot be used (it is a file). Choose another one with --data-dir."
            )
        others = [path.name for path in folder.iterdir() if _counts(path)]
    except OSError as error:
        raise DataFolderRefused(
            f"The data folder {folder} cannot be read ({error.strerror}). Choose another one with --data-dir."
        ) from error
    is_home_or_root = folder.resolve() in (_expanded(Path("~")).resolve(), Path(folder.anchor))
    if (others or is_home_or_root) and not has_chat_tables(folder / FILE_NAME):
        raise DataFolderRefused(_refusal(folder, sorted(others), is_home_or_root))


def _refusal(folder: Path, others: list[str], is_home_or_root: bool) -> str:
    names = ", ".join(others[:SHOWN]) + (", …" if len(others) > SHOWN else "")
    if folder.resolve() == Path(folder.anchor):
        return f"{folder} is the root of a disk. Choose a folder of its own for Foresight with --data-dir."
    why = "is your home folder" if is_home_or_root else f"holds files that are not Foresight's ({names})"
    return (
        f"{folder} {why}, so nothing in it was touched. Choose a new or an empty folder with --data-dir, such as "
        f"{folder / 'foresight'}."
    )


def _is_marked(folder: Path) -> bool:
    try:
        return (folder / MARKER).read_text(encoding="utf-8", errors="replace").startswith(MARK.rstrip())
    except OSError:
        return False


def _counts(path: Path) -> bool:
    """Returns whether a path may be another program's content. A link always may be. LITTER does not count, nor do
    the app's own lock, marker and empty folders."""
    if path.is_symlink():
        return True
    if path.is_dir():
        return path.name not in LITTER and not (path.name in FOLDERS and not any(path.iterdir()))
    return path.name not in (*LITTER, "in-use.lock") and not path.name.startswith(MARKER)


def _own_paths(folder: Path) -> Iterator[Path]:
    """Yields the folder, then the files and folders that the app has made directly in it."""
    yield folder
    for path in folder.iterdir():
        is_named_so = path.name in FOLDERS if path.is_dir() else FILES.fullmatch(path.name)
        if is_named_so and not path.is_symlink():
            yield path


def _make_private(folder: Path) -> None:
    """Removes all rights of other users on the folder, and on the app's files and folders directly in it.

    Does nothing on Windows, where the user profile is private already."""
    if os.name != "posix":
        return
    try:
        for path in _own_paths(folder):
            with suppress(FileNotFoundError):  # deleted meanwhile by the running app
                mode = path.stat().st_mode
                if mode & 0o077:
                    path.chmod(stat.S_IMODE(mode) & ~0o077)
    except PermissionError:
        log.warning(
            "Other users of this machine can read the data folder %s, and you may not change its permissions. "
            "Choose another folder with --data-dir to keep your chats private.",
            folder,
        )


class DataFolder:
    """The app's data folder, which one running instance at a time can lock."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = FileLock(path / "in-use.lock", mode=0o600)
        self._address = path / "in-use.address"

    def hold(self) -> None:
        """Makes the folder, removes other users' rights on it, and locks it for this process. The system unlocks it
        when the process ends.

        Raises DataFolderInUse if another instance has locked it, SettingsNotSaved if it cannot be used."""
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            _make_private(self.path)
            self._lock.acquire(timeout=0)
            self._address.unlink(missing_ok=True)  # left by an instance that was killed
        except Timeout as error:
            address = self.running_at()
            where = f" (at {address})" if address else ""
            raise DataFolderInUse(
                f"Foresight is already running on {self.path}{where}. "
                "Use that window, or start Foresight with a different --data-dir."
            ) from error
        except OSError as error:
            raise SettingsNotSaved(
                f"The data folder {self.path} cannot be used ({error.strerror}). "
                "Choose another one with --data-dir."
            ) from error

    def announce(self, address: str) -> None:
        """Writes the page's address, with the page's key, for a second instance of this user. Ignores OSError."""
        with suppress(OSError):
            self._address.touch(mode=0o600)
            self._address.write_text(address, encoding="utf-8")

    def release(self) -> None:
        with suppress(OSError):  # the disk is gone or read-only
            self._address.unlink()
        self._lock.release()

    def running_at(self) -> str:
        """Returns the address that the instance with the lock has announced; "" if there is none."""
        try:
            address = self._address.read_text(encoding="utf-8")
            return address if urlsplit(address).port else ""
        except (OSError, ValueError):  # not announced yet, incomplete, or just released
            return ""

    def is_held(self) -> bool:
        """Returns whether another DataFolder has locked the folder."""
        try:
            with self._lock.acquire(timeout=0):
                return False
        except Timeout:
            return True
