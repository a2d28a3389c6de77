"""A web server on a thread of its own, at a socket that is listening."""

import logging
import socket
import threading
from time import monotonic, sleep
from typing import Any

import uvicorn
from starlette.types import ASGIApp

from app.web.slow_clients import TimeoutProtocol

START_SECONDS = 30.0
GRACE_SECONDS = 0.5
"""How long what is being answered may take at the end."""
STOP_SECONDS = 0.5


class ServerThread:
    """Serves an application from the moment it is made; `settings` are uvicorn's."""

    def __init__(self, app: ASGIApp, listener: socket.socket, **settings: Any) -> None:
        config = uvicorn.Config(
            app,
            http=TimeoutProtocol,
            log_config=None,
            log_level=logging.ERROR,
            access_log=False,
            server_header=False,
            **settings,
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, args=([listener],), name="web", daemon=True)
        self._thread.start()
        self._wait_until_started()

    @property
    def is_alive(self) -> bool:
        """Whether it still serves."""
        return self._thread.is_alive()

    def close(self) -> None:
        """Stop answering. Safe to call twice."""
        # It would call it an error that connections which are still open are left.
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
        self._server.should_exit = True
        self._thread.join(GRACE_SECONDS)
        self._server.force_exit = True  # what is left are streams, which end with the loop
        self._thread.join(STOP_SECONDS)

    def _wait_until_started(self) -> None:
        deadline = monotonic() + START_SECONDS
        while not self._server.started:
            if not self.is_alive or monotonic() > deadline:
                raise RuntimeError("the server did not start")
            sleep(0.005)
