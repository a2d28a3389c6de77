"""A web server on a thread of its own, at a socket that is listening."""

import asyncio
import logging
import socket
import threading
from contextlib import suppress
from time import monotonic, sleep
from typing import Any

import uvicorn
from starlette.types import ASGIApp

from app.web.slow_clients import TimeoutProtocol

START_SECONDS = 30.0
GRACE_SECONDS = 0.5
"""How long what is being answered may take at the end."""
STOP_SECONDS = 0.5
TICK_SECONDS = 1.0
"""How often the time in the headers of answers is set."""


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
            workers=1,  # else uvicorn reads WEB_CONCURRENCY, and FORWARDED_ALLOW_IPS below
            proxy_headers=False,
            forwarded_allow_ips=[],
            **settings,
        )
        self._server = _Server(config)
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
        self._server.end()
        self._thread.join(GRACE_SECONDS)
        self._server.force_exit = True  # what is left are streams, which end with the loop
        self._thread.join(STOP_SECONDS)

    def _wait_until_started(self) -> None:
        deadline = monotonic() + START_SECONDS
        while not self._server.started:
            if not self.is_alive or monotonic() > deadline:
                raise RuntimeError("the server did not start")
            sleep(0.005)


class _Server(uvicorn.Server):
    """Wakes once a second. Uvicorn's own wakes ten times as often to see whether it is to end."""

    _ending: asyncio.Event | None = None

    async def main_loop(self) -> None:
        self._running_in, self._ending = asyncio.get_running_loop(), asyncio.Event()
        while not await self.on_tick(0):
            with suppress(TimeoutError):
                await asyncio.wait_for(self._ending.wait(), TICK_SECONDS)

    def end(self) -> None:
        """From any thread: stop answering."""
        self.should_exit = True
        if self._ending is not None:
            with suppress(RuntimeError):  # its loop has ended
                self._running_in.call_soon_threadsafe(self._ending.set)
