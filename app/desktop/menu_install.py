"""Writes or removes the app's entry in the system's menu."""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import app
from app.desktop.menu_entries import Launch, MenuEntry, MenuFile, linux_entry, macos_entry, windows_entry
from app.errors import MenuNotWritten
from app.settings import assets_dir
from app.system.files import write_file
from app.system.programs import OWN_FOLDER, find_program, settled

SECONDS = 60.0


def make_launch(is_native: bool, platform: str = sys.platform) -> Launch:
    """The command of this app: its run.py with this Python, or the installed package."""
    script = Path(app.__file__).parent.parent / "run.py"
    # Without -P the second would import from the folder where it is started, before Python's own library.
    start = (str(script),) if script.exists() else ("-P", "-c", "from app.main import main; main()")
    native = ("--native",) if is_native else ()
    pictures = assets_dir() / "ui"
    return Launch(
        (_python(Path(sys.executable), platform), *start, *native),
        svg=(pictures / "icon.svg").read_bytes(),
        png=(pictures / "icon-256.png").read_bytes(),
    )


def _python(executable: Path, platform: str) -> str:
    """This Python; on Windows the one that opens no console, where it is there."""
    quiet = executable.with_name("pythonw.exe")
    return str(quiet if platform == "win32" and quiet.exists() else executable)


def make_entry(launch: Launch, platform: str, home: Path, environ: Mapping[str, str]) -> MenuEntry:
    """The entry for this kind of system."""
    if platform == "win32":
        return windows_entry(launch, home, environ)
    if platform == "darwin":
        return macos_entry(launch, home, app.__version__)
    return linux_entry(launch, home, environ)


def install(entry: MenuEntry) -> Iterator[str]:
    """Write the entry; yields a sentence for each step. Raises MenuNotWritten."""
    known = (*(file.path for file in entry.files), *entry.made)
    if others := [path for path in known if _exists(path) and not _is_ours(entry, path)]:
        raise MenuNotWritten(f"{others[0]} belongs to another program: move or rename it, then try again.")
    for file in entry.files:
        _write(file)
        yield f"Wrote {file.path}"
    for command in entry.commands:
        _run(command, is_needed=bool(entry.made))
    for path in entry.made:
        yield f"Wrote {path}"
    yield f"Foresight is now among {entry.where}."


def uninstall(entry: MenuEntry) -> Iterator[str]:
    """Remove the entry; yields a sentence for each step. Raises MenuNotWritten."""
    known = (*(file.path for file in entry.files), *entry.made)
    gone = [path for path in known if _exists(path) and _is_ours(entry, path)]
    for path in gone:
        _remove(path)
    if entry.folder is not None:
        _remove_empty(entry.folder)
    yield from (f"Removed {path}" for path in gone)
    yield "Foresight is no longer in the menu." if gone else "Foresight was not in the menu."


def _exists(path: Path) -> bool:
    return os.path.lexists(path)  # a link that leads nowhere, too


def _is_ours(entry: MenuEntry, path: Path) -> bool:
    """Whether a file is of an entry of this app, or has what this entry would write."""
    try:
        if entry.main is not None and _exists(entry.main):
            return entry.mark in entry.main.read_bytes()
        return any(file.path == path and file.content == path.read_bytes() for file in entry.files)
    except OSError:
        return False


def _write(file: MenuFile) -> None:
    try:
        write_file(file.path, file.content)
        if file.is_program:
            file.path.chmod(0o755)
    except OSError as error:
        raise MenuNotWritten(
            f"{file.path} cannot be written ({error.strerror}): check its folder."
        ) from error


def _remove(path: Path) -> None:
    try:
        path.unlink()
    except OSError as error:
        raise MenuNotWritten(f"{path} cannot be removed ({error.strerror}): remove it yourself.") from error


def _remove_empty(folder: Path) -> None:
    """Remove a folder with the empty folders in it; one with a file in it stays."""
    for place, _, _ in os.walk(folder, topdown=False):
        with suppress(OSError):
            Path(place).rmdir()


def _run(command: tuple[str, ...], is_needed: bool) -> None:
    """Run a command. One that only refreshes the menu may be missing, or fail."""
    name, *arguments = command
    try:
        subprocess.run(
            [find_program(name) or name, *arguments], capture_output=True, timeout=SECONDS, check=is_needed,
            cwd=OWN_FOLDER, env=settled(os.environ),
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError) as error:
        if is_needed:
            raise MenuNotWritten(f"{name} could not make the entry: {error}") from error
