"""Shows the page in a native window, from a separate process that runs this module as a program. The process is
separate because graphics drivers and triton load different versions of LLVM, which would crash in one process. The
process ends when its window or its standard input is closed, so it ends with the app."""

import logging
import os
import subprocess
import sys
import threading
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from app.errors import WindowUnavailable
from app.system.child_process import importing_environment, not_started, python_command
from app.system.programs import OWN_FOLDER

RAISE_LINE = b"raise\n"
UNAVAILABLE = 3
"""Exit code of the process if no window can be opened; the last line of its stderr gives the reason."""
LOOK_SECONDS = 0.2
"""Seconds between two checks of whether the window is to be raised or closed."""
END_SECONDS = 5.0
"""Seconds that the process may take to end; then it is killed."""
SIZE = (1366, 860)
SMALLEST = (480, 560)


def require_window() -> None:
    """Raise WindowUnavailable if pywebview is not installed."""
    if find_spec("webview") is None:
        raise WindowUnavailable(
            'To open Foresight in its own window, install pywebview (`pip install "pywebview>=5"`), '
            "or start without --native."
        )


def show_window(address: str, storage: Path, closing: threading.Event, raise_wanted: threading.Event) -> None:
    """Show the page until its window is closed or `closing` is set. Sets `closing` at the end.

    Setting `raise_wanted` brings the window to the front. Raises WindowUnavailable if the process cannot open a
    window, ProcessNotStarted if it cannot be started."""
    command = python_command("-m", "app.desktop.window", str(storage.absolute()))
    with not_started():
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=OWN_FOLDER,
            env=importing_environment(),
        )
    with process as child:
        stderr = _StderrReader(child)
        # The address contains the page's key, so it is not an argument, which every user could read.
        _send(child, f"{address}\n".encode())
        try:
            while child.poll() is None and not closing.wait(LOOK_SECONDS):
                if raise_wanted.is_set():
                    raise_wanted.clear()
                    _send(child, RAISE_LINE)
        finally:
            closing.set()
            if child.stdin is not None:
                child.stdin.close()
            try:
                child.wait(END_SECONDS)
            except subprocess.TimeoutExpired:
                child.kill()
        if child.returncode == UNAVAILABLE:
            raise WindowUnavailable(
                f"No window can be opened here ({stderr.last_line()}): start without --native."
            )


def _send(child: subprocess.Popen[bytes], line: bytes) -> None:
    if child.stdin is not None and child.poll() is None:
        try:
            child.stdin.write(line)
            child.stdin.flush()
        except BrokenPipeError:
            return  # the window has just been closed


class _StderrReader:
    """Reads the stderr of a process, so that its pipe never fills, and keeps the last line."""

    def __init__(self, child: subprocess.Popen[bytes]) -> None:
        self._child = child
        self._line = b""
        self._thread = threading.Thread(target=self._read, name="window", daemon=True)
        self._thread.start()

    def last_line(self) -> str:
        """Wait for the end of stderr, at most END_SECONDS, and return its last line."""
        self._thread.join(END_SECONDS)
        return self._line.decode(errors="replace").strip().rstrip(".") or "the reason is unknown"

    def _read(self) -> None:
        for line in self._child.stderr or ():
            self._line = line.strip() or self._line


def main() -> None:
    """Show the page whose address is the first line of standard input, until the window or the input is closed.

    The program's argument is the folder for browser data."""
    (storage,) = sys.argv[1:]
    address = sys.stdin.buffer.readline().decode().strip()
    import webview  # seldom installed, and slow to import

    # pywebview logs each GUI library that it does not find.
    logging.getLogger("pywebview").setLevel(logging.CRITICAL)
    webview.settings["ALLOW_DOWNLOADS"] = True
    width, height = SIZE
    window = webview.create_window("Foresight", address, width=width, height=height, min_size=SMALLEST)
    try:
        commands_thread = threading.Thread(
            target=follow_commands, args=(window, sys.stdin.buffer), daemon=True
        )
        # private_mode=False lets the page store its appearance settings.
        webview.start(commands_thread.start, private_mode=False, storage_path=storage)
    except webview.WebViewException as error:
        sys.stderr.write(f"{error}\n")
        _exit(UNAVAILABLE)
    _exit(0)


def _exit(code: int) -> None:
    """End the process at once, although a thread still waits for the app's next line."""
    sys.stderr.flush()
    os._exit(code)


def follow_commands(window: Any, commands: Iterable[bytes]) -> None:
    """Execute the app's commands, each a line, in a window of pywebview. Closes the window when the input ends."""
    for line in commands:
        if line == RAISE_LINE:
            window.restore()
            window.show()
    window.destroy()


if __name__ == "__main__":
    main()
