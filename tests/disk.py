"""A disk that knows what a power cut would leave."""

import os
from pathlib import Path
from typing import Any

import pytest


class Disk:
    """Records, in order, what is synced and what takes another file's place, by inodes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.done: list[tuple[str, int]] = []
        sync, replace = os.fsync, os.replace

        def fsync(file: int) -> None:
            self.done.append(("sync", os.fstat(file).st_ino))
            sync(file)

        def replaced(source: Any, target: Any, **more: Any) -> None:
            self.done.append(("replace", Path(source).stat().st_ino))
            replace(source, target, **more)

        monkeypatch.setattr(os, "fsync", fsync)
        monkeypatch.setattr(os, "replace", replaced)

    def keeps(self, path: Path) -> bool:
        """Whether a power cut now would leave this file: its bytes were synced, then its name in its folder."""
        file, folder = path.stat().st_ino, path.parent.stat().st_ino
        if ("replace", file) not in self.done:  # it was made under this name
            return {("sync", file), ("sync", folder)} <= set(self.done)
        named = self.done.index(("replace", file))
        return ("sync", file) in self.done[:named] and ("sync", folder) in self.done[named:]
