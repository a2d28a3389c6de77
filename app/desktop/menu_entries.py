"""The files and commands of an entry in the menu of Linux, Windows and macOS, with the icon in their formats."""

import plistlib
import shlex
import struct
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

DESCRIPTION = "Chat with a language model on this machine"
BUNDLE = "app.foresight.desktop"


@dataclass(frozen=True, slots=True)
class MenuFile:
    """A file of a menu entry."""

    path: Path
    content: bytes
    is_program: bool = False


@dataclass(frozen=True, slots=True)
class MenuEntry:
    """The files to write, the commands to run afterwards, and the name of the menu.

    `made` are files that the commands make. `folder` is the entry's own. Where `main` is there and lacks `mark`, it
    belongs to another program."""

    files: tuple[MenuFile, ...]
    where: str
    commands: tuple[tuple[str, ...], ...] = ()
    made: tuple[Path, ...] = ()
    folder: Path | None = None
    main: Path | None = None
    mark: bytes = b""


@dataclass(frozen=True, slots=True)
class Launch:
    """The command that the entry starts, and the icon in two formats."""

    command: tuple[str, ...]
    svg: bytes
    png: bytes

    def __post_init__(self) -> None:
        if not self.command or any("\n" in word for word in self.command):
            raise ValueError(f"a command must have words without line breaks, got {self.command!r}")


def ico(png: bytes) -> bytes:
    """A Windows icon with one picture of 256 by 256, which is written as 0."""
    header = struct.pack("<HHH", 0, 1, 1)
    entry = struct.pack("<BBBBHHII", 0, 0, 0, 0, 1, 32, len(png), len(header) + 16)
    return header + entry + png


def icns(png: bytes) -> bytes:
    """A macOS icon with one picture: `ic08` is 256 by 256."""
    chunk = b"ic08" + struct.pack(">I", len(png) + 8) + png
    return b"icns" + struct.pack(">I", len(chunk) + 8) + chunk


def linux_entry(launch: Launch, home: Path, environ: Mapping[str, str]) -> MenuEntry:
    """The entry below XDG_DATA_HOME; a relative path is ignored, as the specification says."""
    given = Path(environ.get("XDG_DATA_HOME", ""))
    data = given if given.is_absolute() else home / ".local" / "share"
    entry = data / "applications" / "foresight.desktop"
    icon = data / "icons" / "hicolor" / "scalable" / "apps" / "foresight.svg"
    return MenuEntry(
        files=(MenuFile(icon, launch.svg), MenuFile(entry, desktop_file(launch.command, icon).encode())),
        where="your applications",
        commands=(("update-desktop-database", str(entry.parent)),),
        main=entry,
        mark=DESCRIPTION.encode(),
    )


def desktop_file(command: tuple[str, ...], icon: Path) -> str:
    """The .desktop file that starts this command."""
    return "\n".join(
        (
            "[Desktop Entry]",
            "Type=Application",
            "Version=1.0",
            "Name=Foresight",
            f"Comment={DESCRIPTION}",
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


def windows_entry(launch: Launch, home: Path, environ: Mapping[str, str]) -> MenuEntry:
    """A shortcut in the person's own Start menu; its icon lies in the app's local data."""
    roaming = Path(environ.get("APPDATA") or home / "AppData" / "Roaming")
    local = Path(environ.get("LOCALAPPDATA") or home / "AppData" / "Local")
    shortcut = roaming / "Microsoft" / "Windows" / "Start Menu" / "Programs" / "Foresight.lnk"
    icon = local / "foresight" / "foresight.ico"
    script = shortcut_script(launch.command, shortcut, icon)
    return MenuEntry(
        files=(MenuFile(icon, ico(launch.png)),),
        where="the Start menu",
        commands=(("powershell", "-NoProfile", "-NonInteractive", "-Command", script),),
        made=(shortcut,),
        main=shortcut,
        mark=DESCRIPTION.encode("utf-16-le"),
    )


def shortcut_script(command: tuple[str, ...], shortcut: Path, icon: Path) -> str:
    """What PowerShell runs to make the shortcut."""
    program, *arguments = command
    return "; ".join(
        (
            "$ErrorActionPreference = 'Stop'",
            f"New-Item -ItemType Directory -Force -Path {_text(str(shortcut.parent))} | Out-Null",
            f"$link = (New-Object -ComObject WScript.Shell).CreateShortcut({_text(str(shortcut))})",
            f"$link.TargetPath = {_text(program)}",
            f"$link.Arguments = {_text(subprocess.list2cmdline(arguments))}",
            f"$link.IconLocation = {_text(str(icon))}",
            f"$link.Description = {_text(DESCRIPTION)}",
            "$link.Save()",
        )
    )


def _text(value: str) -> str:
    """A PowerShell string without interpolation."""
    return "'" + value.replace("'", "''") + "'"


def macos_entry(launch: Launch, home: Path, version: str) -> MenuEntry:
    """Foresight.app with its list of properties, a script and the icon."""
    bundle = home / "Applications" / "Foresight.app"
    contents = bundle / "Contents"
    script = f"#!/bin/sh\nexec {shlex.join(launch.command)}\n"
    return MenuEntry(
        files=(
            MenuFile(contents / "Info.plist", plistlib.dumps(_properties(version))),
            MenuFile(contents / "MacOS" / "foresight", script.encode(), is_program=True),
            MenuFile(contents / "Resources" / "foresight.icns", icns(launch.png)),
        ),
        where="Applications",
        folder=bundle,
        main=contents / "Info.plist",
        mark=BUNDLE.encode(),
    )


def _properties(version: str) -> dict[str, str]:
    return {
        "CFBundleName": "Foresight",
        "CFBundleDisplayName": "Foresight",
        "CFBundleIdentifier": BUNDLE,
        "CFBundleExecutable": "foresight",
        "CFBundleIconFile": "foresight.icns",
        "CFBundlePackageType": "APPL",
        "CFBundleShortVersionString": version,
        "CFBundleVersion": version,
        "LSMinimumSystemVersion": "11.0",
    }
