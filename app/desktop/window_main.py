"""The process of the window: shows the page at the address it is given until it is closed, or its input ends."""

import logging
import os
import sys
import threading
from collections.abc import Iterable
from typing import Protocol

from app.desktop.window import RAISE_LINE, UNAVAILABLE

SIZE = (1366, 860)
SMALLEST = (480, 560)


class Window(Protocol):
    """What is asked of pywebview's window."""

    def restore(self) -> None:
        """Open it up again."""

    def show(self) -> None:
        """Bring it to the front."""

    def destroy(self) -> None:
        """Close it."""


def main() -> None:
    """Show the page: the folder for what its browser keeps is the argument, its address the input's first line."""
    (storage,) = sys.argv[1:]
    address = sys.stdin.buffer.readline().decode().strip()
    import webview  # seldom installed, and slow

    # It tells at length of every kind of window that it does not find before one that it does.
    logging.getLogger("pywebview").setLevel(logging.CRITICAL)
    webview.settings["ALLOW_DOWNLOADS"] = True
    width, height = SIZE
    window = webview.create_window("Foresight", address, width=width, height=height, min_size=SMALLEST)
    try:
        # The page remembers nothing of its own but how it looks; that it may keep.
        attending = threading.Thread(target=attend, args=(window, sys.stdin.buffer), daemon=True)
        webview.start(attending.start, private_mode=False, storage_path=storage)
    except webview.WebViewException as error:
        sys.stderr.write(f"{error}\n")
        _exit(UNAVAILABLE)
    _exit(0)


def _exit(code: int) -> None:
    """End at once: the thread that waits for the app's next line must not be waited for."""
    sys.stderr.flush()
    os._exit(code)


def attend(window: Window, orders: Iterable[bytes]) -> None:
    """Do with the window what the app's lines say, until there are none."""
    for line in orders:
        if line == RAISE_LINE:
            window.restore()
            window.show()
    window.destroy()


if __name__ == "__main__":
    main()
