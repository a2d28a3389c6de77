"""The files of a database and its backups: their names, how they are moved, and what to do about damaged ones."""

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
"""When a copy was made, in its name."""
SUFFIXES = ("", "-wal", "-shm")
"""SQLite's files of one database."""


def files_of(database: Path) -> list[Path]:
    """Returns the database and SQLite's files beside it, whether they exist or not."""
    return [database.with_name(database.name + end) for end in SUFFIXES]


def is_there(database: Path) -> bool:
    """Whether there is a file with something in it."""
    with suppress(OSError):
        return database.stat().st_size > 0
    return False


def require_target(target: Path, source: Path) -> None:
    """Raises StoreNotUsable for a place that a copy of the source cannot be written to."""
    if target.is_dir():
        raise StoreNotUsable(f"{target} is a folder. Choose a file in it.")
    if target.exists() and source.exists() and target.samefile(source):
        raise StoreNotUsable(f"{target} is the database itself. Choose another file.")


def move_aside(database: Path) -> Path:
    """Renames a damaged database's files, from which something may still be saved."""
    kept = database.with_name(time.strftime(f"{database.name}.broken-{STAMP}"))
    # Not the file alone: what was committed last may be in the WAL.
    for file, moved in zip(files_of(database), files_of(kept), strict=True):
        if file.exists():
            file.replace(moved)
    kept.touch()  # there may be a WAL alone
    return kept


def backups_in(data_dir: Path) -> list[Path]:
    """Lists the automatic backups of a data folder, the newest last."""
    with suppress(OSError):  # no folder, or one that cannot be read
        backups = data_dir.glob(f"{BACKUPS}/foresight-*.sqlite")
        return sorted(backups, key=lambda file: (_changed(file), file.name))
    return []


def _changed(file: Path) -> int:
    with suppress(OSError):  # deleted meanwhile
        return file.stat().st_mtime_ns
    return 0


def recovery(damaged: Path | None, data_dir: Path) -> str:
    """Advises what to do about a damaged database of this data folder, or a missing one."""
    advice = []
    if damaged:
        rescue = command_line("chats", "rescue", damaged, "--data-dir", data_dir)
        advice.append(f"`{rescue}` saves what can still be read")
    if backups := backups_in(data_dir):
        restore = command_line("chats", "restore", backups[-1], "--data-dir", data_dir)
        advice.append(f"`{restore}` brings back the newest backup")
    return f"Quit Foresight: {', and '.join(advice)}." if advice else "There is no automatic backup of it."


def command_line(*words: str | Path) -> str:
    """Returns a command of the app as it is typed."""
    typed = ["python", "run.py", *map(str, words)]
    return subprocess.list2cmdline(typed) if os.name == "nt" else shlex.join(typed)
