"""The entry on Windows: a shortcut in the Start menu, which only the shell can make, so PowerShell asks it."""

import subprocess
from collections.abc import Mapping
from pathlib import Path

from app.desktop.icon import ico
from app.desktop.menu.entry import Launch, MenuEntry, MenuFile


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
            "$link.Description = 'Chat with a language model on this machine'",
            "$link.Save()",
        )
    )


def _text(value: str) -> str:
    """A PowerShell string in which nothing is looked up."""
    return "'" + value.replace("'", "''") + "'"
