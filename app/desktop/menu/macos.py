"""The entry on macOS: a small application in the person's own Applications folder, which starts the command."""

import plistlib
import shlex
from pathlib import Path

from app.desktop.icon import icns
from app.desktop.menu.entry import Launch, MenuEntry, MenuFile


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
    )


def _properties(version: str) -> dict[str, str]:
    return {
        "CFBundleName": "Foresight",
        "CFBundleDisplayName": "Foresight",
        "CFBundleIdentifier": "app.foresight.desktop",
        "CFBundleExecutable": "foresight",
        "CFBundleIconFile": "foresight.icns",
        "CFBundlePackageType": "APPL",
        "CFBundleShortVersionString": version,
        "CFBundleVersion": version,
        "LSMinimumSystemVersion": "11.0",
    }
