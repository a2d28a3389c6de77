"""Serves the API without a page."""

import logging
import socket
import threading

import uvicorn
from starlette.types import ASGIApp

from app.web.slow_clients import TimeoutProtocol

GRACE_SECONDS = 0.5


class RunningApi:
    """An API that is being served at a listening socket."""

    def __init__(self, app: ASGIApp, listener: socket.socket) -> None:
        self.host, self.port = listener.getsockname()[:2]
        config = uvicorn.Config(
            app,
            http=TimeoutProtocol,
            ws="none",
            lifespan="off",
            log_config=None,
            log_level=logging.ERROR,
            access_log=False,
            server_header=False,
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, args=([listener],), name="api", daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        """The base address that clients are given."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}/v1"

    def wait(self) -> None:
        """Return when the server has ended; a KeyboardInterrupt passes through."""
        while self._thread.is_alive():
            self._thread.join(0.5)

    def close(self) -> None:
        """Stop answering. Safe to call twice."""
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
        self._server.should_exit = True
        self._thread.join(GRACE_SECONDS)
        self._server.force_exit = True
        self._thread.join(GRACE_SECONDS)


def serve_api(app: ASGIApp, listener: socket.socket) -> RunningApi:
    """Serve on a thread of its own."""
    return RunningApi(app, listener)
