"""A menu entry as values."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class MenuFile:
    """A file of a menu entry."""

    path: Path
    content: bytes
    is_program: bool = False


@dataclass(frozen=True, slots=True)
class MenuEntry:
    """The files that are written, the commands that are run behind them, and what is there in the end.

    `made` are files that the commands make; `folder` is one that holds nothing but the entry, if there is one."""

    files: tuple[MenuFile, ...]
    where: str
    commands: tuple[tuple[str, ...], ...] = ()
    made: tuple[Path, ...] = ()
    folder: Path | None = None


@dataclass(frozen=True, slots=True)
class Launch:
    """What the entry starts: a program with its arguments, from a folder; and the icon's two pictures."""

    command: tuple[str, ...]
    svg: bytes
    png: bytes

    def __post_init__(self) -> None:
        if not self.command or any("\n" in word for word in self.command):
            raise ValueError(f"a command must have words without line breaks, got {self.command!r}")
