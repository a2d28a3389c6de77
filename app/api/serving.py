"""Serves the API without a page."""

import socket
from time import sleep

from starlette.types import ASGIApp

from app.web.server_thread import ServerThread


class RunningApi:
    """An API that is being served at a listening socket."""

    def __init__(self, app: ASGIApp, listener: socket.socket) -> None:
        self.host, self.port = listener.getsockname()[:2]
        self._server = ServerThread(app, listener, ws="none", lifespan="off")

    @property
    def url(self) -> str:
        """The base address that clients are given."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}/v1"

    @property
    def is_serving(self) -> bool:
        """Whether it still answers."""
        return self._server.is_alive

    def wait(self) -> None:
        """Return when the server has ended; a KeyboardInterrupt passes through."""
        while self.is_serving:
            sleep(0.5)

    def close(self) -> None:
        """Stop answering. Safe to call twice."""
        self._server.close()
