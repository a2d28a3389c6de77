"""Writes or removes the app's entry in the system's menu."""

import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import app
from app.desktop.menu_entries import Launch, MenuEntry, MenuFile, linux_entry, macos_entry, windows_entry
from app.errors import MenuNotWritten
from app.settings import assets_dir

SECONDS = 60.0


def make_launch(is_native: bool, platform: str = sys.platform) -> Launch:
    """The command of this app: its run.py with this Python, or the installed package."""
    script = Path(app.__file__).parent.parent / "run.py"
    start = (str(script),) if script.exists() else ("-c", "from app.main import main; main()")
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
    gone = [path for path in (*(file.path for file in entry.files), *entry.made) if _remove(path)]
    if entry.folder is not None:
        shutil.rmtree(entry.folder, ignore_errors=True)
    yield from (f"Removed {path}" for path in gone)
    yield "Foresight is no longer in the menu." if gone else "Foresight was not in the menu."


def _write(file: MenuFile) -> None:
    try:
        file.path.parent.mkdir(parents=True, exist_ok=True)
        file.path.write_bytes(file.content)
        if file.is_program:
            file.path.chmod(0o755)
    except OSError as error:
        raise MenuNotWritten(
            f"{file.path} cannot be written ({error.strerror}): check its folder."
        ) from error


def _remove(path: Path) -> bool:
    try:
        path.unlink()
    except FileNotFoundError:
        return False
    except OSError as error:
        raise MenuNotWritten(f"{path} cannot be removed ({error.strerror}): remove it yourself.") from error
    return True


def _run(command: tuple[str, ...], is_needed: bool) -> None:
    """Run a command. One that only refreshes the menu may be missing, or fail."""
    try:
        subprocess.run(command, capture_output=True, timeout=SECONDS, check=is_needed)
    except (OSError, subprocess.SubprocessError) as error:
        if is_needed:
            raise MenuNotWritten(f"{command[0]} could not make the entry: {error}") from error
