"""The data folder: what lies in it, by part, and how it is opened in the system's own file manager."""

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from html import escape
from pathlib import Path

from app.model_messages import gigabytes

PARTS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("Chats", ("*.db", "*.db-*", "*.sqlite*", "chats*", "backups*")),
    ("Notes on models", ("steps", "experience*", "races*")),
    ("Downloads under way", ("downloads",)),
    ("Logs", ("logs", "*.log*")),
    ("Temporary files", ("gradio",)),
    ("Settings", ("settings.json*",)),
)
"""Parts of the folder, and the names of what lies at its top that belongs to each."""
OTHERS = "Other"
DELETING = (
    "<details><summary>Delete all chats…</summary><p>Every chat goes for good, from the disk, too. Documents, "
    "presets, settings and models stay.</p>"
    '<button type="button" class="act danger" data-do="delete-chats">Delete all chats</button></details>'
)
OPENERS = {"darwin": "open", "win32": "explorer"}


@dataclass(frozen=True, slots=True)
class FolderPart:
    """A part of the data folder, and its bytes."""

    name: str
    size: int


def measure_folder(folder: Path) -> list[FolderPart]:
    """The parts of the folder, as large as they are now; what goes away meanwhile counts nothing."""
    sizes = dict.fromkeys((*(name for name, _ in PARTS), OTHERS), 0)
    for place in _children(folder):
        sizes[_part_of(place.name)] += _size(place)
    return [FolderPart(name, size) for name, size in sizes.items() if size]


def _part_of(name: str) -> str:
    return next((part for part, names in PARTS if any(fnmatch(name, each) for each in names)), OTHERS)


def _children(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:
        return []


def _size(place: Path) -> int:
    try:
        if place.is_dir() and not place.is_symlink():
            return sum(map(_size, _children(place)))
        return place.lstat().st_size
    except OSError:
        return 0


def folder_html(folder: Path, parts: Sequence[FolderPart]) -> str:
    """The folder's path, its parts, and how large all of it is."""
    total = sum(part.size for part in parts)
    rows = "".join(f"<dt>{escape(part.name)}</dt><dd>{gigabytes(part.size)}</dd>" for part in parts)
    return (
        f'<p class="path"><code>{escape(str(folder))}</code></p>'
        f'<dl class="facts-list">{rows}<dt><b>Together</b></dt><dd><b>{gigabytes(total)}</b></dd></dl>'
        '<p class="hint">Models lie in the hub\'s cache, which other programs share: see Models.</p>'
        '<div class="actions"><button type="button" class="act" data-do="open-folder">Open folder</button></div>'
        f"{DELETING}"
    )


def opener(platform: str, folder: Path) -> list[str]:
    """The command that shows a folder in this system's file manager."""
    return [OPENERS.get(platform, "xdg-open"), str(folder)]


def open_folder(folder: Path) -> str:
    """Show the folder; what went wrong as a sentence, or nothing."""
    try:
        subprocess.Popen(  # it lives on its own
            opener(sys.platform, folder), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            start_new_session=os.name == "posix",
        )  # fmt: skip
    except OSError:
        return f"No file manager was found: open {folder} yourself."
    return ""
