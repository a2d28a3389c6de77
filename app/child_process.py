"""Child processes of the app: a request line goes in, lines come out.

A crash of the child does not touch the app, and the child can be killed at any time. It ends by itself when its
standard input is closed, so an app that was killed leaves no process behind.

    app:    with ChildProcess("app.x.process_main", b"request\\n") as child:  for line in child.lines(): ...
    child:  serve(lambda request, send: send(b"done\\n"))
"""

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import SimpleQueue
from typing import NoReturn, Self

from app.errors import ProcessNotStarted

SECONDS_TO_END = 5.0
NO_VARIABLES: Mapping[str, str] = {}
Say = Callable[[bytes], None]


class ChildProcess:
    """A module of this app that runs as a process. `kill` may be called from any thread, at any time."""

    def __init__(
        self, module: str, request: bytes = b"", environment: Mapping[str, str] = NO_VARIABLES
    ) -> None:
        self._request = request
        with not_started():
            self._process = subprocess.Popen(
                [sys.executable, "-m", module],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={**importing_environment(), **environment},
                start_new_session=True,  # Ctrl+C in the terminal is handled by the app
            )
        assert self._process.stdin and self._process.stdout
        self._input, self._output = self._process.stdin, self._process.stdout

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Kill it and close its pipes."""
        self.kill()
        with suppress(OSError):  # it may hold bytes that the ended process never read
            self._input.close()
        self._output.close()

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    def lines(self) -> Iterator[bytes]:
        """Send the request, and yield the lines until the process ends: none if it ended before it had the request.

        The last line of a killed process may be incomplete; it is left out."""
        with suppress(OSError):
            self._input.write(self._request)
            self._input.flush()
        yield from (line for line in self._output if line.endswith(b"\n"))

    def ask(self, request: bytes, seconds: float) -> bytes:
        """Send a request and return the answer; b"" when the process ended, or was killed after so many seconds."""
        timer = threading.Timer(seconds, self.kill)
        timer.daemon = True
        timer.start()
        try:
            self._input.write(request)
            self._input.flush()
            answer = self._output.readline()
        except OSError:  # it ended meanwhile
            return b""
        finally:
            timer.cancel()
        return answer if answer.endswith(b"\n") else b""

    def kill(self) -> None:
        """Kill it and wait for its end. A process that waits for a dead disk cannot be killed, and is abandoned."""
        if self._process.poll() is None:
            self._process.kill()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(SECONDS_TO_END)


@contextmanager
def not_started() -> Iterator[None]:
    """Turn the system's error when no process can be started (no memory, too many) into a sentence."""
    try:
        yield
    except OSError as error:
        raise ProcessNotStarted(
            f"Foresight could not start a process of its own ({error.strerror}): "
            "close other programs, then try again."
        ) from error


def serve(work: Callable[[bytes, Say], None]) -> NoReturn:
    """The child's side: handle the request on standard input, then exit, whatever threads still run."""
    request = sys.stdin.buffer.readline()
    threading.Thread(target=_exit_with_the_app, daemon=True).start()
    work(request, _say)
    os._exit(0)


def serve_each(work: Callable[[bytes], bytes]) -> NoReturn:
    """The child's side of `ask`: one answer to each line, until standard input is closed."""
    requests: SimpleQueue[bytes] = SimpleQueue()
    threading.Thread(target=_read_requests, args=(requests,), daemon=True).start()
    while True:
        _say(work(requests.get()))


def limit_memory(most: int) -> None:
    """Limit the address space of this process, where the system supports it."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return
    with suppress(ValueError, OSError):  # macOS refuses
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        allowed = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(resource.RLIMIT_AS, (allowed, allowed))


def importing_environment() -> dict[str, str]:
    """This process's environment, with this package on PYTHONPATH."""
    places = (str(Path(__file__).parent.parent), os.environ.get("PYTHONPATH", ""))
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, places))}


def _say(line: bytes) -> None:
    sys.stdout.buffer.write(line)
    sys.stdout.buffer.flush()


def _read_requests(requests: SimpleQueue[bytes]) -> None:
    for line in sys.stdin.buffer:
        requests.put(line)
    os._exit(1)


def _exit_with_the_app() -> None:
    sys.stdin.buffer.read()
    os._exit(1)
