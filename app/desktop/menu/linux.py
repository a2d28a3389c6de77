"""The entry on Linux: a .desktop file and its icon, where the freedesktop.org rules have them."""

from collections.abc import Mapping
from pathlib import Path

from app.desktop.menu.entry import Launch, MenuEntry, MenuFile


def linux_entry(launch: Launch, home: Path, environ: Mapping[str, str]) -> MenuEntry:
    """The entry below XDG_DATA_HOME; a relative one counts as none, as the rules say."""
    given = Path(environ.get("XDG_DATA_HOME", ""))
    data = given if given.is_absolute() else home / ".local" / "share"
    entry = data / "applications" / "foresight.desktop"
    icon = data / "icons" / "hicolor" / "scalable" / "apps" / "foresight.svg"
    return MenuEntry(
        files=(MenuFile(icon, launch.svg), MenuFile(entry, desktop_file(launch.command, icon).encode())),
        where="your applications",
        commands=(("update-desktop-database", str(entry.parent)),),
    )


def desktop_file(command: tuple[str, ...], icon: Path) -> str:
    """The .desktop file that starts this command."""
    return "\n".join(
        (
            "[Desktop Entry]",
            "Type=Application",
            "Version=1.0",
            "Name=Foresight",
            "Comment=Chat with a language model on this machine",
            f"Exec={' '.join(map(quoted, command))}",
            f"Icon={_string(str(icon))}",
            "Terminal=false",
            "Categories=Utility;",
            "Keywords=chat;language model;assistant;",
            "",
        )
    )


def quoted(word: str) -> str:
    """A word of Exec: in quotes, with what a shell would take escaped, and the file's own escapes on top."""
    for character in ("\\", '"', "`", "$"):
        word = word.replace(character, f"\\{character}")
    return _string(f'"{word}"').replace("%", "%%")


def _string(value: str) -> str:
    return value.replace("\\", "\\\\")
