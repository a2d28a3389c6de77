"""Starts, asks and ends tool servers. Each server has a child process (`mcp_client_main.py`), which is the client
of the protocol. When a server is first used, the child process is started, and it starts the server's program."""

import json
import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from time import monotonic, sleep
from typing import Any, BinaryIO

from app.errors import AppError, ArgumentsRefused, SessionLost, ToolFailed
from app.system.answer_limits import plain_words
from app.system.child_process import ChildProcess, awaited
from app.system.environment import without_secrets
from app.system.programs import find_program, settled
from app.values.dataclass_json import parse_json, read
from app.values.display_text import counted
from app.values.tools import ServerState, ServerStatus, ServerText, Tool, ToolServer

MODULE = "app.tools.mcp_client_main"
LOG_BYTES, LOG_LINES, LONGEST_LINE = 2**16, 200, 500
LOG_SECONDS = 0.02
"""Seconds between two readings of a server's log. A server that logs faster waits while its pipe is full."""
LONGEST_ARGUMENTS = 1_000_000
LOOK_SECONDS = 0.1
"""Seconds between two checks of whether a call should stop."""
SECONDS_TO_START, SECONDS_TO_ANSWER = 120.0, 60.0
"""Maximum number of seconds for a server's start, which may download its program, and for an answer."""
SECONDS_TO_END = 3.0
"""Seconds that a server may take to end by itself: more than `mcp_client_main` gives it before killing it."""
RETRY_SECONDS = 10.0
"""Seconds for which a server that failed to start is not started again, unless the user restarts it."""
ENDED = "{name} ended unexpectedly. Look at its log, then restart it."
Stopping = Callable[[], bool]
Answer = dict[str, Any]


class ToolServers:
    """Tool servers, started in `folder`. Each use calls `servers` for the list. Safe to use from any thread."""

    def __init__(
        self,
        servers: Callable[[], Sequence[ToolServer]],
        folder: Path,
        starting: float = SECONDS_TO_START,
        answering: float = SECONDS_TO_ANSWER,
    ) -> None:
        self._servers = servers
        self._folder = folder
        self._seconds = starting, answering
        self._lock = threading.Lock()
        self._connections: dict[str, _Connection] = {}
        self._is_closed = False

    def tools(self, name: str, is_stopping: Stopping = lambda: False) -> tuple[Tool, ...]:
        """Return the tools of a server, which is started if necessary. Raises ToolFailed."""
        return self._connection(name).listed(is_stopping)

    def text_of(self, offered: ServerText) -> str:
        """Return the text of a resource, or of a prompt with [name] for each argument. Raises ToolFailed."""
        arguments = {one: f"[{one}]" for one in offered.arguments}
        job: Answer = {"do": "prompt", "name": offered.name, "arguments": arguments}
        if offered.uri:
            job = {"do": "resource", "uri": offered.uri}
        return str(self._connection(offered.server).ask(job, lambda: False))

    def call(self, tool: Tool, arguments: str, is_stopping: Stopping) -> str:
        """Return the text of a call's result. Raises ToolFailed, also for an error that the server reports."""
        parsed = arguments_object(arguments)
        job = {"do": "call", "name": tool.name, "schema": tool.schema, "arguments": parsed}
        return str(self._connection(tool.server).ask(job, is_stopping))

    def status(self, name: str) -> ServerStatus:
        """Return a server's status, without waiting for it."""
        connection = self._connections.get(name)
        return connection.status if connection else ServerStatus()

    def log(self, name: str) -> tuple[str, ...]:
        connection = self._connections.get(name)
        return connection.log if connection else ()

    def restart(self, name: str) -> None:
        """End a server on a thread, and forget its log. The server is started again at its next use."""
        with self._lock:
            self._end([name])

    def close(self) -> None:
        """End all servers, with all processes that they started. Later requests raise ToolFailed."""
        with self._lock:
            self._is_closed = True
            ending, self._connections = [*self._connections.values()], {}
        with ThreadPoolExecutor(len(ending) or 1) as pool:
            pool.map(_Connection.end, ending)

    def _connection(self, name: str) -> "_Connection":
        """Return the connection to a server, and end servers that were changed, removed or turned off.

        Raises ToolFailed for a server that is unknown or off."""
        known = {server.name: server for server in self._servers() if server.is_on}
        with self._lock:
            if self._is_closed:
                raise ToolFailed("Foresight is closing.")
            outdated = [one for one, running in self._connections.items() if known.get(one) != running.server]
            self._end(outdated)
            if name in known and name not in self._connections:
                self._connections[name] = _Connection(known[name], self._folder, *self._seconds)
            connection = self._connections.get(name)
        if connection is None:
            raise ToolFailed(
                f"There is no tool server {name}, or it is off: turn it on under Settings → Tools."
            )
        return connection

    def _end(self, names: Sequence[str]) -> None:
        for connection in filter(None, [self._connections.pop(name, None) for name in names]):
            threading.Thread(target=connection.end, daemon=True).start()


class _Connection:
    """The process and the status of one server, which answers one request at a time."""

    def __init__(self, server: ToolServer, folder: Path, starting: float, answering: float) -> None:
        self.server = server
        self._status = ServerStatus()
        self._folder = folder
        self._starting, self._answering = starting, answering
        self._turn = threading.Lock()
        self._log = b""
        self._child: ChildProcess | None = None
        self._reader = threading.Thread()
        self._retry_at = 0.0
        self._is_ended = False

    @property
    def status(self) -> ServerStatus:
        """The status of the server, which may have ended since its last answer."""
        if not self._turn.locked():
            self._notice_end()
        return self._status

    @property
    def log(self) -> tuple[str, ...]:
        lines = (plain_words(line, LONGEST_LINE) for line in self._log.decode(errors="replace").splitlines())
        return tuple(filter(None, lines))[-LOG_LINES:]

    def listed(self, is_stopping: Stopping) -> tuple[Tool, ...]:
        """Return the server's tools. Lists them again if the server has announced a change and is not busy."""
        if self.status.state != "ready" or not self._turn.locked():
            with self._in_turn(is_stopping):
                if changed := self._asked({"do": "changed"}, is_stopping):
                    self._list(changed)
        return self._status.tools

    def ask(self, job: Answer, is_stopping: Stopping) -> Any:
        with self._in_turn(is_stopping):
            return self._asked(job, is_stopping)

    def end(self) -> None:
        """End the server, and a request that waits for its answer."""
        self._is_ended = True
        if child := self._child:
            child.end(SECONDS_TO_END)
            child.close()

    @contextmanager
    def _in_turn(self, is_stopping: Stopping) -> Iterator[None]:
        """Wait until no other request runs, then start the server if necessary."""
        while not self._turn.acquire(timeout=LOOK_SECONDS):
            if is_stopping():
                raise ToolFailed("The call was stopped.")
        try:
            self._notice_end()
            if self._status.state != "ready":
                self._start(is_stopping)
            yield
        finally:
            self._turn.release()

    def _notice_end(self) -> None:
        if self._status.state == "ready" and self._child and not self._child.is_running:
            self._failed(ENDED.format(name=self.server.name))

    def _start(self, is_stopping: Stopping) -> None:
        if monotonic() < self._retry_at:
            raise ToolFailed(self._status.problem)
        self._status = ServerStatus("starting")
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            described = _described(self.server, self._folder)
            child = self._child = ChildProcess(MODULE, has_log=True)
        except (AppError, OSError) as error:
            raise self._failed(str(error)) from error
        self._reader = threading.Thread(target=self._read_log, args=(child.log,), daemon=True)
        self._reader.start()
        self._list(self._answered(self._starting, is_stopping, described))

    def _list(self, offered: Answer) -> None:
        found = {kind: [{"server": self.server.name, **one} for one in offered[kind]] for kind in offered}
        self._status = read(ServerStatus, {"state": "ready", **found})

    def _asked(self, job: Answer, is_stopping: Stopping) -> Any:
        with suppress(SessionLost):  # the job was not begun, so it may be sent again
            return self._answered(self._answering, is_stopping, job)
        self._start(is_stopping)
        return self._answered(self._answering, is_stopping, job)

    def _answered(self, seconds: float, is_stopping: Stopping, job: Answer) -> Any:
        """Send a job and wait for its answer. Kills the server if it does not answer in time, or if `is_stopping`.

        Raises ToolFailed."""
        child, name, began = self._child, self.server.name, monotonic()
        assert child

        def beat(_seconds: float) -> None:
            if is_stopping():
                raise self._failed("The call was stopped.", "off")

        line = json.dumps(job).encode() + b"\n"
        answer = json.loads(awaited(lambda: child.ask(line, seconds), beat) or "{}")
        if "result" in answer:
            return answer["result"]
        if "problem" in answer:  # only this request failed; the server still runs
            raise (ArgumentsRefused if answer["is_refused"] else ToolFailed)(answer["problem"])
        if self._is_ended:
            raise self._failed(f"{name} was ended.", "off")
        late = f"{name} did not answer within {counted(round(seconds), 'second')}, so it was ended."
        silent = late if monotonic() - began >= seconds else ENDED.format(name=name)
        failed = self._failed(answer.get("over", silent))
        raise SessionLost(str(failed)) if answer.get("is_lost") else failed

    def _failed(self, problem: str, state: ServerState = "failed") -> ToolFailed:
        if self._child:
            self._child.close()
        if (self._status.state, state) == ("starting", "failed"):
            self._retry_at = monotonic() + RETRY_SECONDS
            if self._reader.is_alive():  # without a process the thread was never started
                self._reader.join(SECONDS_TO_END)
            problem += f" Its log ends: “{last[0]}”." if (last := self.log[-1:]) else ""
        self._status = ServerStatus(state, problem)
        return ToolFailed(problem)

    def _read_log(self, log: BinaryIO) -> None:
        """Read a process's log until the process ends, and keep its last bytes. Runs on a thread of its own."""
        with log:
            while piece := os.read(log.fileno(), LOG_BYTES):
                self._log = (self._log + piece)[-LOG_BYTES:]
                sleep(LOG_SECONDS)


def arguments_object(arguments: str) -> Answer:
    """Parse the arguments of a call. Raises ArgumentsRefused if they are not a JSON object, or too long."""
    if len(arguments) > LONGEST_ARGUMENTS:
        raise ArgumentsRefused(
            f"The arguments have more than {LONGEST_ARGUMENTS:,} characters: make them shorter."
        )
    try:
        found = parse_json(arguments.strip() or "{}")
    except ValueError as error:
        raise ArgumentsRefused(f"The arguments are not valid JSON ({error}).") from error
    if not isinstance(found, dict):
        raise ArgumentsRefused("The arguments are not a JSON object.")
    return found


def _described(server: ToolServer, folder: Path) -> Answer:
    """Return the first request to the child process, which describes the server.

    Raises ToolFailed for a missing program."""
    if server.address:
        sys.audit("socket.getaddrinfo", server.host, None, 0, 0, 0)  # so that the log of contacts lists it
        return asdict(server)
    environment = {**settled(without_secrets(os.environ)), **server.environment}
    if "PYTHONSAFEPATH" not in {**os.environ, **server.environment}:
        del environment["PYTHONSAFEPATH"]  # a server may import the files beside it
    program = Path(server.command[0]).expanduser()
    found = str(program) if program.is_absolute() else find_program(server.command[0], environment)
    if found is None or not Path(found).is_file():
        raise ToolFailed(
            f"The program {server.command[0]} of {server.name} was not found. Install it, or enter its whole path."
        )
    described = {**asdict(server), "command": (found, *server.command[1:])}
    return {**described, "environment": environment, "folder": str(folder)}
