"""Serving the page: a socket of our own, the guard around everything, a server on its own thread."""

import logging
import threading
import webbrowser
from time import monotonic, sleep

import uvicorn

from app.ui.desk import Desk
from app.ui.guard import Guard
from app.ui.ports import LOOPBACK, listen

START_SECONDS = 30.0
STOP_SECONDS = 5.0


class Running:
    """A page that answers."""

    def __init__(self, server: uvicorn.Server, thread: threading.Thread, port: int, asked_port: int) -> None:
        self._server = server
        self._thread = thread
        self.port = port
        self.url = f"http://{LOOPBACK}:{port}"
        moved = asked_port not in (0, port)
        self.note = f"Port {asked_port} is taken, so Foresight is at {self.url}" if moved else ""

    def wait(self) -> None:
        """Return when the page is closed for good; a KeyboardInterrupt passes through."""
        while self._thread.is_alive():
            self._thread.join(0.5)

    def close(self) -> None:
        """Stop answering. Replies under way are the engine's and go on. Safe to call twice."""
        self._server.should_exit = True
        self._thread.join(STOP_SECONDS)


def serve(desk: Desk, port: int, open_browser: bool) -> Running:
    """Show the desk at 127.0.0.1 on `port` or the next free one. Raises NoFreePort."""
    listener = listen(port)
    # Gradio takes seconds to import, and other commands never need it.
    from app.ui.page import build_app

    server = uvicorn.Server(
        uvicorn.Config(
            Guard(build_app(desk)),
            lifespan="on",
            ws="none",
            log_config=None,
            log_level=logging.ERROR,
            access_log=False,
            server_header=False,
            # An open page holds its event stream for ever; quitting must not wait for it.
            timeout_graceful_shutdown=1,
        )
    )
    thread = threading.Thread(target=server.run, args=([listener],), name="page", daemon=True)
    thread.start()
    _wait_until_started(server, thread)
    running = Running(server, thread, listener.getsockname()[1], port)
    if open_browser:
        webbrowser.open(running.url)
    return running


def _wait_until_started(server: uvicorn.Server, thread: threading.Thread) -> None:
    deadline = monotonic() + START_SECONDS
    while not server.started:
        if not thread.is_alive() or monotonic() > deadline:
            raise RuntimeError("the page's server did not start")
        sleep(0.005)
