"""The servers that the person added, and what is asked of them: their models, and replies.

Every reply has a thread of its own with its own connection, so the engine's thread never waits for a server.
"""

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from app.errors import AppError, BadOption, ServerError
from app.messages import Event, Failed, Finished, Loading, Request
from app.remote.server_file import ServerFile
from app.server_messages import Server, read_address

if TYPE_CHECKING:
    from app.remote.client import Limits

log = logging.getLogger(__name__)
LOOK_SECONDS = 0.05
"""How often a reply looks whether it is to stop."""
WHY = "a server that you added, for its models or a reply"


class EventSink(Protocol):
    """Where a request's events go."""

    @property
    def is_stopping(self) -> bool:
        """Whether the person asked to stop."""

    def append(self, event: Event) -> None:
        """Take the next event."""


class Servers:
    """The servers of a data folder. Safe to use from any thread."""

    def __init__(
        self,
        data_dir: Path,
        is_offline: Callable[[], bool] = lambda: False,
        explain: Callable[[str, str], None] = lambda _host, _why: None,
        limits: "Limits | None" = None,
        key: str = "",
    ) -> None:
        """`explain` tells the log of contacts why a host is contacted; `key` takes the place of the kept ones."""
        self._file = ServerFile(data_dir)
        self._is_offline = is_offline
        self._explain = explain
        self._limits = limits
        self._key = key
        self._lock = threading.Lock()
        self._servers = self._file.read()
        self._is_closing = threading.Event()

    def servers(self) -> tuple[Server, ...]:
        """All servers, in the order in which they were added."""
        return self._servers

    def add(self, address: str, key: str = "") -> Server:
        """List the models of a server, and keep it. A known one keeps its key unless another one is given.

        Raises BadOption, ServerError, SettingsNotSaved."""
        server = self._server(read_address(address), key.strip())
        server = replace(server, listed=self._list(server))
        with self._lock:
            self._save(server)
        return server

    def remove(self, address: str) -> None:
        """Forget a server with its key and its models."""
        with self._lock:
            self._keep(tuple(one for one in self._servers if one.address != address))

    def add_model(self, address: str, model: str) -> None:
        """Have a model of this server among those to choose from."""
        self._change(address, lambda added: (*(one for one in added if one != model), model))

    def remove_model(self, address: str, model: str) -> None:
        """Take a model off the list."""
        self._change(address, lambda added: tuple(one for one in added if one != model))

    def submit(self, request: Request, reply: EventSink) -> None:
        """Write a reply on a thread of its own."""
        threading.Thread(
            target=lambda: asyncio.run(self._write(request, reply)), name="remote reply", daemon=True
        ).start()

    def close(self) -> None:
        """End every reply that is being written."""
        self._is_closing.set()

    def _list(self, server: Server) -> tuple[str, ...]:
        self._require_allowed(server)
        from app.remote.client import Limits, list_models  # the client takes a second to import
        from app.remote.failures import sentence_of

        try:
            names = asyncio.run(list_models(server, self._limits or Limits()))
        except Exception as error:
            raise ServerError(sentence_of(error, server)) from error
        if not names:
            raise ServerError(f"{server.host} lists no models. Load one there, then try again.")
        return names

    async def _write(self, request: Request, reply: EventSink) -> None:
        """A reply's thread. Whatever happens, its last event is appended.

        Not behind `asyncio.run`: that waits for the system's answer where a host was being looked up."""
        end: Finished | Failed
        try:
            server = self._server(request.model.server, self._key)
            self._require_allowed(server)
            end = await self._followed(request, reply, server)
        except AppError as error:
            end = Failed(str(error))
        except Exception as error:
            log.exception("a reply of a server failed")
            end = Failed(
                f"The reply failed because of a bug in Foresight ({type(error).__name__}). Try again."
            )
        reply.append(end)

    async def _followed(self, request: Request, reply: EventSink, server: Server) -> Finished | Failed:
        from app.remote.client import Limits, chunks
        from app.remote.failures import cut_off, sentence_of
        from app.remote.reply import RemoteReply

        reply.append(Loading(f"Waiting for {server.host}"))
        told = RemoteReply(request.model)

        async def read() -> None:
            async for chunk in chunks(server, request, self._limits or Limits()):
                for piece in told.take(chunk):
                    reply.append(piece)

        try:
            if not await self._until_stopped(read(), reply):
                return told.finished("stopped")
        except Exception as error:
            return Failed(sentence_of(error, server, request.model.name, told.has_begun))
        return told.finished(told.reason) if told.reason else Failed(cut_off(server))

    async def _until_stopped(self, work: Coroutine[Any, Any, None], reply: EventSink) -> bool:
        """Whether the work came to its end; False where it was stopped, which closes its connection."""
        task = asyncio.create_task(work)
        while not task.done():
            if reply.is_stopping or self._is_closing.is_set():
                task.cancel()
            await asyncio.wait({task}, timeout=LOOK_SECONDS)
        if task.cancelled():
            return False
        task.result()
        return True

    def _server(self, address: str, key: str) -> Server:
        """The server at this address, as it is kept if it is. Raises BadOption for a key that is none."""
        if not (key.isascii() and key.isprintable()):
            raise BadOption("The key has signs in it that no key has. Copy it again.")
        known = next((one for one in self._servers if one.address == address), Server(address))
        return replace(known, key=key) if key else known

    def _require_allowed(self, server: Server) -> None:
        """Raises ServerError when Foresight is offline, unless the server runs on this machine."""
        if self._is_offline() and not server.is_here:
            raise ServerError(
                f"Foresight is set to offline, so {server.host} is not asked: turn Offline off under Models → "
                "Discover, or choose an installed model."
            )
        self._explain(server.hostname, WHY)

    def _change(self, address: str, change: Callable[[tuple[str, ...]], tuple[str, ...]]) -> None:
        with self._lock:
            server = next((one for one in self._servers if one.address == address), None)
            if server is None:
                raise ServerError(f"{address} is no longer in the list. Add it again.")
            self._save(replace(server, added=change(server.added)))

    def _save(self, server: Server) -> None:
        """Keep a server in its place, or behind the others."""
        servers = {one.address: one for one in self._servers} | {server.address: server}
        self._keep(tuple(servers.values()))

    def _keep(self, servers: tuple[Server, ...]) -> None:
        self._file.write(servers)
        self._servers = servers
