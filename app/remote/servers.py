"""Keeps the servers that the user added, and requests replies and lists of models from them.

Every reply has a thread of its own with its own connection, so the engine's thread never waits for a server.
"""

import asyncio
import json
import logging
import threading
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from dataclasses import asdict, replace
from math import inf
from pathlib import Path
from typing import Any

from app.errors import BadOption, ServerError, SettingsNotSaved
from app.system.files import write_file
from app.values.dataclass_json import parse_json, require_types
from app.values.messages import EventSink, Failed, Loading, Request
from app.values.server import Limits, Server, read_address

log = logging.getLogger(__name__)
FILE = "servers.json"
DEFAULT_LIMITS = Limits()
LAST_SECONDS = 5.0
"""Seconds to wait for the statistics of a reply after its text has ended."""
LOOK_SECONDS = 0.05
"""Seconds between two checks of whether a reply should stop."""
WHY = "a server that you added, for its models or a reply"


class Servers:
    """The servers of a data folder. Safe to use from any thread."""

    def __init__(
        self,
        data_dir: Path,
        is_offline: Callable[[], bool] = lambda: False,
        explain: Callable[[str, str], None] = lambda _host, _why: None,
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        """Read the servers of this folder. `explain` is called with a host and the reason before it is
        contacted."""
        self._file = ServerFile(data_dir)
        self._is_offline = is_offline
        self._explain = explain
        self._limits = limits
        self._lock = threading.Lock()
        self._servers = self._file.read()

    def servers(self) -> tuple[Server, ...]:
        """Return all servers, in the order in which they were added."""
        return self._servers

    def add(self, address: str, key: str = "") -> Server:
        """Save a server and the models it lists. A known server keeps its position, and its key if `key` is "".

        Raises BadOption, ServerError, SettingsNotSaved."""
        server = self._server(read_address(address), key.strip())
        self._require_allowed(server)
        from app.remote.client import list_models  # the client takes a second to import
        from app.remote.failures import sentence_of

        try:
            server = replace(server, models=asyncio.run(list_models(server, self._limits)))
        except Exception as error:
            raise ServerError(sentence_of(error, server)) from error
        if not server.models:
            raise ServerError(f"{server.host} lists no models. Load one there, then try again.")
        with self._lock:
            self._keep({one.address: one for one in self._servers} | {server.address: server})
        return server

    def remove(self, address: str) -> None:
        """Delete a server with its key and its list of models. Raises SettingsNotSaved."""
        with self._lock:
            self._keep({one.address: one for one in self._servers if one.address != address})

    def restore(self, before: Iterable[Server]) -> None:
        """Add the servers of `before` that were removed since, in their former order. Raises SettingsNotSaved."""
        with self._lock:
            self._keep({one.address: one for one in (*before, *self._servers)})

    def submit(self, request: Request, reply: EventSink) -> None:
        """Start a thread that receives the reply. For a server that was removed, append Failed instead."""
        server = self._known(request.model.server)
        if server is None:
            reply.append(
                Failed(f"{request.model.server} was removed. Add it again, or choose another model.")
            )
            return
        write = self._write(server, request, reply)
        threading.Thread(target=lambda: asyncio.run(write), name="remote reply", daemon=True).start()

    async def _write(self, server: Server, request: Request, reply: EventSink) -> None:
        """Appends the reply's events, on the reply's own thread. If the server fails, the last event says why.

        The last event is appended here, because `asyncio.run` may return later: it waits for DNS lookups."""
        from app.remote.client import chunks
        from app.remote.failures import cut_off, sentence_of
        from app.remote.reply import RemoteReply

        written, end, limits = RemoteReply(request.model), cut_off(server.host), self._limits

        async def read() -> None:
            now = asyncio.get_running_loop().time
            async with asyncio.timeout(limits.silence) as timeout:
                async for chunk in chunks(server, request, limits):
                    for piece in written.take(chunk):
                        reply.append(piece)
                        timeout.reschedule(now() + limits.silence)
                    if written.reason:
                        timeout.reschedule(min(timeout.when() or inf, now() + LAST_SECONDS))

        try:
            self._require_allowed(server)
            reply.append(Loading(f"Waiting for {server.host}"))
            reason = written.reason if await _until_stopped(read(), reply) else "stopped"
        except TimeoutError as error:  # if the reply has ended, only its statistics are missing
            reason, end = written.reason, sentence_of(error, server, request, written.has_begun)
        except Exception as error:
            reason, end = None, sentence_of(error, server, request, written.has_begun)
        reply.append(written.finished(reason) if reason else Failed(end))

    def _server(self, address: str, key: str) -> Server:
        """Return the saved server at this address, or a new server. Raises BadOption for an impossible key."""
        if not (key.isascii() and key.isprintable()):
            raise BadOption("The key contains characters that a key cannot have. Copy it again.")
        known = self._known(address) or Server(address)
        return replace(known, key=key) if key else known

    def _known(self, address: str) -> Server | None:
        return next((one for one in self._servers if one.address == address), None)

    def _require_allowed(self, server: Server) -> None:
        """Raises ServerError if Foresight is offline, unless the server runs on this machine.

        Otherwise reports the reason for contacting the server."""
        if self._is_offline() and not server.is_here:
            raise ServerError(
                f"Foresight is set to offline, so {server.host} is not asked: turn Offline off under Models → "
                "Discover, or choose an installed model."
            )
        self._explain(server.hostname, WHY)

    def _keep(self, servers: dict[str, Server]) -> None:
        self._file.write(tuple(servers.values()))
        self._servers = tuple(servers.values())


async def _until_stopped(work: Coroutine[Any, Any, None], reply: EventSink) -> bool:
    """Waits for the work, and raises its errors. Returns False after a stop, which closes the connection."""
    task = asyncio.create_task(work)
    while not task.done():
        if reply.is_stopping:
            task.cancel()
        await asyncio.wait({task}, timeout=LOOK_SECONDS)
    if task.cancelled():
        return False
    task.result()
    return True


class ServerFile:
    """The servers and their keys, in a file of the data folder that only the user can read."""

    def __init__(self, data_dir: Path) -> None:
        self.path = data_dir / FILE

    def read(self) -> tuple[Server, ...]:
        """Return the servers; none if the file is missing or unreadable. An invalid file is renamed to .broken."""
        try:
            return tuple(_server(**saved) for saved in parse_json(self.path.read_text(encoding="utf-8")))
        except FileNotFoundError:
            return ()
        except OSError as error:
            log.warning("the servers in %s cannot be read (%s)", self.path, error.strerror)
        except (ValueError, TypeError, AttributeError):
            with suppress(OSError):  # on a read-only disk the file keeps its name
                self.path.replace(self.path.with_suffix(".json.broken"))
        return ()

    def write(self, servers: tuple[Server, ...]) -> None:
        """Write these servers into the file. Raises SettingsNotSaved."""
        try:
            write_file(self.path, json.dumps([asdict(server) for server in servers], indent=2))
        except OSError as error:
            raise SettingsNotSaved(
                f"The servers could not be saved in {self.path.parent} ({error.strerror}). "
                "Free some disk space, or choose another folder with --data-dir."
            ) from error


def _server(address: str, key: str, models: list[str]) -> Server:
    saved = {"address": address, "key": key, "models": models}
    return require_types(Server(address, key, tuple(models)), saved)
