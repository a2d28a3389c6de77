"""The data folder: how large its parts are, and how it is opened in the system's file manager."""

import os
import subprocess
import sys
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

from app.system.programs import OWN_FOLDER, find_program, settled

PARTS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("Chats and documents", ("*.sqlite*", "documents-inbox")),
    ("Backups", ("backups",)),
    ("Measurements of models", ("steps",)),
    ("Unfinished downloads", ("downloads",)),
    ("Logs", ("logs",)),
    ("Temporary files", ("gradio",)),
    ("Settings", ("settings.json*",)),
)
"""The parts, and the names of the files and folders at the top of the data folder that belong to each."""
OTHER = "Other"
FILE_MANAGERS = {"darwin": "open", "win32": "explorer"}


@dataclass(frozen=True, slots=True)
class FolderPart:
    """A part of the data folder, and its size in bytes."""

    name: str
    size: int


def measure_folder(folder: Path) -> list[FolderPart]:
    """The parts of the folder that are not empty. Files that vanish meanwhile are not counted."""
    sizes = dict.fromkeys((*(name for name, _ in PARTS), OTHER), 0)
    for path in _children(folder):
        sizes[_part_of(path.name)] += _size(path)
    return [FolderPart(name, size) for name, size in sizes.items() if size]


def _part_of(name: str) -> str:
    return next((part for part, patterns in PARTS if any(fnmatch(name, each) for each in patterns)), OTHER)


def _children(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:
        return []


def _size(path: Path) -> int:
    """The size of a file or a folder; links are not followed."""
    try:
        if path.is_dir() and not path.is_symlink():
            return sum(map(_size, _children(path)))
        return path.lstat().st_size
    except OSError:
        return 0


def file_manager_command(platform: str, folder: Path) -> list[str]:
    """The command that shows a folder in the system's file manager."""
    return [FILE_MANAGERS.get(platform, "xdg-open"), str(folder)]


def open_folder(folder: Path) -> str:
    """Show the folder in the file manager. Returns why that failed, or ""."""
    name, *arguments = file_manager_command(sys.platform, folder)
    try:
        if program := find_program(name):
            subprocess.Popen(
                [program, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                start_new_session=os.name == "posix", cwd=OWN_FOLDER, env=settled(os.environ),
            )  # fmt: skip
            return ""
    except OSError as error:
        return f"The file manager did not start ({error.strerror}). Open {folder} yourself."
    return f"Can't find a file manager. Open {folder} yourself."
