"""Writes and removes the app's entry in the menu of Linux, Windows or macOS."""

import os
import plistlib
import shlex
import struct
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import app
from app.errors import MenuNotWritten
from app.settings import assets_dir
from app.system.files import write_file
from app.system.programs import OWN_FOLDER, find_program, settled

SECONDS = 60.0
"""Seconds that each command of an entry may take."""
DESCRIPTION = "Chat with a language model on this machine"
BUNDLE = "app.foresight.desktop"


@dataclass(frozen=True, slots=True)
class MenuFile:
    path: Path
    content: bytes
    is_program: bool = False


@dataclass(frozen=True, slots=True)
class MenuEntry:
    """The files of an entry, the commands to run after writing them, and the name of the menu (`where`).

    `made` are files that the commands make. `folder` belongs to the entry alone. If the file `main` exists but
    does not contain `mark`, it belongs to another program."""

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
            raise ValueError(
                f"the words of a command must not have line breaks; the command is {self.command!r}"
            )


def ico(png: bytes) -> bytes:
    """Make a Windows icon with one picture of 256 by 256 pixels; the format writes this size as 0."""
    header = struct.pack("<HHH", 0, 1, 1)
    entry = struct.pack("<BBBBHHII", 0, 0, 0, 0, 1, 32, len(png), len(header) + 16)
    return header + entry + png


def icns(png: bytes) -> bytes:
    """Make a macOS icon with one picture; `ic08` means 256 by 256 pixels."""
    chunk = b"ic08" + struct.pack(">I", len(png) + 8) + png
    return b"icns" + struct.pack(">I", len(chunk) + 8) + chunk


def linux_entry(launch: Launch, home: Path, environ: Mapping[str, str]) -> MenuEntry:
    """Make the entry below XDG_DATA_HOME; a relative path is ignored, as the specification says."""
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
    """Quote a word of the Exec line: escape the shell's special characters, then those of the file format."""
    for character in ("\\", '"', "`", "$"):
        word = word.replace(character, f"\\{character}")
    return _string(f'"{word}"').replace("%", "%%")


def _string(value: str) -> str:
    return value.replace("\\", "\\\\")


def windows_entry(launch: Launch, home: Path, environ: Mapping[str, str]) -> MenuEntry:
    """Make the entry for the user's own Start menu: a shortcut, with its icon in the app's local data."""
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
    """Quote a PowerShell string, without interpolation."""
    return "'" + value.replace("'", "''") + "'"


def macos_entry(launch: Launch, home: Path, version: str) -> MenuEntry:
    """Make the entry Foresight.app, with its property list, a script and the icon."""
    bundle = home / "Applications" / "Foresight.app"
    contents = bundle / "Contents"
    script = f"#!/bin/sh\nexec {shlex.join(launch.command)}\n"
    properties = {
        "CFBundleName": "Foresight", "CFBundleDisplayName": "Foresight", "CFBundleIdentifier": BUNDLE,
        "CFBundleExecutable": "foresight", "CFBundleIconFile": "foresight.icns", "CFBundlePackageType": "APPL",
        "CFBundleShortVersionString": version, "CFBundleVersion": version, "LSMinimumSystemVersion": "11.0",
    }  # fmt: skip
    return MenuEntry(
        files=(
            MenuFile(contents / "Info.plist", plistlib.dumps(properties)),
            MenuFile(contents / "MacOS" / "foresight", script.encode(), is_program=True),
            MenuFile(contents / "Resources" / "foresight.icns", icns(launch.png)),
        ),
        where="Applications",
        folder=bundle,
        main=contents / "Info.plist",
        mark=BUNDLE.encode(),
    )


def make_launch(is_native: bool, platform: str = sys.platform) -> Launch:
    """Return the icons and the command of this app: its run.py with this Python, or the installed package."""
    script = Path(app.__file__).parent.parent / "run.py"
    # Without -P, `python -c` would import modules from the current folder before those of Python's own library.
    start = (str(script),) if script.exists() else ("-P", "-c", "from app.main import main; main()")
    native = ("--native",) if is_native else ()
    pictures = assets_dir() / "ui"
    python = Path(sys.executable)
    quiet = python.with_name("pythonw.exe")  # opens no console
    if platform == "win32" and quiet.exists():
        python = quiet
    return Launch(
        (str(python), *start, *native),
        svg=(pictures / "icon.svg").read_bytes(),
        png=(pictures / "icon-256.png").read_bytes(),
    )


def make_entry(launch: Launch, platform: str, home: Path, environ: Mapping[str, str]) -> MenuEntry:
    if platform == "win32":
        return windows_entry(launch, home, environ)
    if platform == "darwin":
        return macos_entry(launch, home, app.__version__)
    return linux_entry(launch, home, environ)


def install(entry: MenuEntry) -> Iterator[str]:
    """Write the entry's files and run its commands. Yields sentences about the steps. Raises MenuNotWritten."""
    known = (*(file.path for file in entry.files), *entry.made)
    if others := [path for path in known if _exists(path) and not _is_ours(entry, path)]:
        raise MenuNotWritten(f"{others[0]} belongs to another program: move or rename it, then try again.")
    for file in entry.files:
        try:
            write_file(file.path, file.content)
            if file.is_program:
                file.path.chmod(0o755)
        except OSError as error:
            raise MenuNotWritten(
                f"{file.path} cannot be written ({error.strerror}): check its folder."
            ) from error
        yield f"Wrote {file.path}"
    is_needed = bool(entry.made)  # other commands only refresh the menu, and may fail
    for name, *arguments in entry.commands:
        try:
            subprocess.run(
                [find_program(name) or name, *arguments],
                capture_output=True,
                timeout=SECONDS,
                check=is_needed,
                cwd=OWN_FOLDER,
                env=settled(os.environ),
            )
        except (OSError, subprocess.SubprocessError) as error:
            if is_needed:
                raise MenuNotWritten(f"{name} could not make the entry: {error}") from error
    for path in entry.made:
        yield f"Wrote {path}"
    yield f"Foresight is now in {entry.where}."


def uninstall(entry: MenuEntry) -> Iterator[str]:
    """Remove the entry's files. Yields a sentence for each file and about the result. Raises MenuNotWritten."""
    known = (*(file.path for file in entry.files), *entry.made)
    ours = [path for path in known if _exists(path) and _is_ours(entry, path)]
    for path in ours:
        try:
            path.unlink()
        except OSError as error:
            raise MenuNotWritten(
                f"{path} cannot be removed ({error.strerror}): remove it yourself."
            ) from error
    if entry.folder is not None:  # only empty folders are removed
        for place, _, _ in os.walk(entry.folder, topdown=False):
            with suppress(OSError):
                Path(place).rmdir()
    yield from (f"Removed {path}" for path in ours)
    yield "Foresight is no longer in the menu." if ours else "Foresight was not in the menu."


def _exists(path: Path) -> bool:
    return os.path.lexists(path)  # True for a broken link, too


def _is_ours(entry: MenuEntry, path: Path) -> bool:
    """Return whether a file is this app's: `main` has the mark or, if `main` is missing, the content is ours."""
    try:
        if entry.main is not None and _exists(entry.main):
            return entry.mark in entry.main.read_bytes()
        return any(file.path == path and file.content == path.read_bytes() for file in entry.files)
    except OSError:
        return False
