"""Names and moves the files of a database and of its backups, and gives advice on damaged files."""

import os
import shlex
import subprocess
import time
from contextlib import suppress
from pathlib import Path

from app.errors import StoreNotUsable

FILE_NAME = "foresight.sqlite"
BACKUPS = "backups"
"""The folder of the automatic backups in the data folder."""
STAMP = "%Y%m%d-%H%M%S"
"""The format of the time in the name of a copy."""
SUFFIXES = ("", "-wal", "-shm")
"""The suffixes of the files that SQLite keeps for one database."""


def files_of(database: Path) -> list[Path]:
    """Returns the database and SQLite's files beside it, whether they exist or not."""
    return [database.with_name(database.name + end) for end in SUFFIXES]


def is_there(database: Path) -> bool:
    """Returns whether the file exists and is not empty."""
    with suppress(OSError):
        return database.stat().st_size > 0
    return False


def require_target(target: Path, source: Path) -> None:
    """Raises StoreNotUsable if the target of a copy is a folder, or the source itself."""
    if target.is_dir():
        raise StoreNotUsable(f"{target} is a folder. Choose a file in it.")
    if target.exists() and source.exists() and target.samefile(source):
        raise StoreNotUsable(f"{target} is the database itself. Choose another file.")


def move_aside(database: Path) -> Path:
    """Renames a damaged database and its WAL, so that `rescue` can still read them. Returns the new path."""
    kept = database.with_name(time.strftime(f"{database.name}.broken-{STAMP}"))
    # The WAL is renamed, too, because it may have the last commits.
    for file, moved in zip(files_of(database), files_of(kept), strict=True):
        if file.exists():
            file.replace(moved)
    kept.touch()  # so that the returned path exists, even if there was only a WAL
    return kept


def backups_in(data_dir: Path) -> list[Path]:
    """Returns the automatic backups of a data folder, the newest last."""
    with suppress(OSError):  # the folder is missing or cannot be read
        backups = data_dir.glob(f"{BACKUPS}/foresight-*.sqlite")
        return sorted(backups, key=lambda file: (_changed(file), file.name))
    return []


def _changed(file: Path) -> int:
    with suppress(OSError):  # deleted meanwhile
        return file.stat().st_mtime_ns
    return 0


def recovery(damaged: Path | None, data_dir: Path) -> str:
    """Returns advice for the user on a damaged or missing database of this data folder."""
    advice = []
    if damaged:
        rescue = command_line("chats", "rescue", damaged, "--data-dir", data_dir)
        advice.append(f"`{rescue}` saves what can still be read")
    if backups := backups_in(data_dir):
        restore = command_line("chats", "restore", backups[-1], "--data-dir", data_dir)
        advice.append(f"`{restore}` brings back the newest backup")
    return (
        f"Quit Foresight. Then {', and '.join(advice)}." if advice else "There is no automatic backup of it."
    )


def command_line(*words: str | Path) -> str:
    """Returns a command of the app as the user types it, with quotes where needed."""
    typed = ["python", "run.py", *map(str, words)]
    return subprocess.list2cmdline(typed) if os.name == "nt" else shlex.join(typed)
