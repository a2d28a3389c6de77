"""The process of the native window. It ends when the window is closed, or standard input is."""

import logging
import os
import sys
import threading
from collections.abc import Iterable
from typing import Protocol

from app.desktop.window import RAISE_LINE, UNAVAILABLE

SIZE = (1366, 860)
SMALLEST = (480, 560)


class PyWebViewWindow(Protocol):
    """The part of pywebview's window that is used."""

    def restore(self) -> None:
        """Unminimise it."""

    def show(self) -> None:
        """Bring it to the front."""

    def destroy(self) -> None:
        """Close it."""


def main() -> None:
    """Show the page: the folder for what its browser keeps is the argument, its address the input's first line."""
    (storage,) = sys.argv[1:]
    address = sys.stdin.buffer.readline().decode().strip()
    import webview  # seldom installed, and slow

    # It logs every kind of window that it does not find.
    logging.getLogger("pywebview").setLevel(logging.CRITICAL)
    webview.settings["ALLOW_DOWNLOADS"] = True
    width, height = SIZE
    window = webview.create_window("Foresight", address, width=width, height=height, min_size=SMALLEST)
    try:
        # private_mode=False: the page keeps how it looks.
        commands_thread = threading.Thread(
            target=follow_commands, args=(window, sys.stdin.buffer), daemon=True
        )
        webview.start(commands_thread.start, private_mode=False, storage_path=storage)
    except webview.WebViewException as error:
        sys.stderr.write(f"{error}\n")
        _exit(UNAVAILABLE)
    _exit(0)


def _exit(code: int) -> None:
    """End at once: the thread that waits for the app's next line must not be waited for."""
    sys.stderr.flush()
    os._exit(code)


def follow_commands(window: PyWebViewWindow, commands: Iterable[bytes]) -> None:
    """Follow the app's commands, one a line, until its standard input ends."""
    for line in commands:
        if line == RAISE_LINE:
            window.restore()
            window.show()
    window.destroy()


if __name__ == "__main__":
    main()
