"""Starts child processes of the app, which read requests and write messages, each on a line.

The app can kill a child at any time, and a child ends by itself when its standard input is closed, which also
happens if the app is killed. Messages begin with the separator of RFC 7464, so that a library's output is ignored.

    app:    with ChildProcess("app.x.process_main", b"request\\n") as child:  for line in child.lines(): ...
    child:  serve(lambda request, send: send(b"done\\n"))
"""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from math import inf
from queue import SimpleQueue
from time import monotonic, process_time
from typing import BinaryIO, NoReturn, Self, TypeVar

from app.errors import AppError, ProcessNotStarted
from app.system.environment import without_secrets
from app.system.programs import OWN_FOLDER, settled

T = TypeVar("T")
SECONDS_TO_END = 5.0
BEAT_SECONDS = 0.3
"""Seconds between two calls of `beat` while work is awaited."""
NO_VARIABLES: Mapping[str, str] = {}
MARK = b"\x1e"
"""The byte that begins each message, and occurs in no message."""
Say = Callable[[bytes], None]


class OutOfProcessorTime(BaseException):
    """This process has used up its processor time. It is not an Exception, so that few libraries catch it."""


class ChildProcess:
    """A module of this app that runs as a process. `kill` may be called from any thread, at any time.

    With `has_log`, `log` is the pipe of the process's standard error, which the caller must read and close."""

    def __init__(
        self,
        module: str,
        request: bytes = b"",
        environment: Mapping[str, str] = NO_VARIABLES,
        has_log: bool = False,
    ) -> None:
        self._request = request
        with not_started():
            self._process = subprocess.Popen(
                python_command("-m", module),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE if has_log else subprocess.DEVNULL,
                cwd=OWN_FOLDER,
                env={**importing_environment(), **environment},
                start_new_session=True,  # Ctrl+C in the terminal is handled by the app
            )
        assert self._process.stdin and self._process.stdout
        self._input, self._output = self._process.stdin, self._process.stdout
        self.log = self._process.stderr

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Kill the process and close its pipes."""
        self.kill()
        with suppress(OSError):  # the pipe may contain bytes that the ended process never read
            self._input.close()
        self._output.close()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def lines(self) -> Iterator[bytes]:
        """Send the request, and yield the messages until the process ends.

        An incomplete last message, as of a killed process, is left out."""
        self.send(self._request)
        yield from filter(None, map(message_in, self._output))

    def send(self, request: bytes) -> None:
        """Send a further request. A process that has ended does not get it."""
        with suppress(OSError, ValueError):  # its pipe is broken, or closed
            self._input.write(request)
            self._input.flush()

    def ask(self, request: bytes, seconds: float) -> bytes:
        """Send a request and return the answer; b"" if the process ended, or took too long and was killed."""
        timer = threading.Timer(seconds, self.kill)
        timer.daemon = True
        timer.start()
        try:
            self._input.write(request)
            self._input.flush()
            return next(filter(None, map(message_in, self._output)), b"")
        except (OSError, ValueError):  # the process ended in the meantime, or its pipes were closed
            return b""
        finally:
            timer.cancel()

    def end(self, seconds: float) -> None:
        """Close the input of the process, so that it ends by itself. After these seconds, kill it."""
        with suppress(OSError):
            self._input.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)
        self.kill()

    def kill(self) -> None:
        """Kill the process and its group, and wait for its end, at most SECONDS_TO_END seconds."""
        if self._process.returncode is None:  # until the process is waited for, its id is not reused
            _kill_group(self._process.pid)
            self._process.kill()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(SECONDS_TO_END)


def awaited(work: Callable[[], T], beat: Callable[[float], None]) -> T:
    """Run `work` on another thread and return its result. Meanwhile `beat` is called with the seconds so far.

    An error that `beat` raises ends the waiting at once; `work` continues."""
    began, pool = monotonic(), ThreadPoolExecutor(1)
    future = pool.submit(work)
    pool.shutdown(wait=False)
    while not wait([future], BEAT_SECONDS).done:
        beat(monotonic() - began)
    return future.result()


def message_in(line: bytes) -> bytes:
    """Return the message in a line; b"" if a library printed the line, or if its end is missing."""
    _, mark, message = line.rpartition(MARK)
    return message if mark and message.endswith(b"\n") else b""


@contextmanager
def understanding(problem: AppError) -> Iterator[None]:
    """Raise `problem` if the block fails because a message is malformed."""
    try:
        yield
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        raise problem from error


@contextmanager
def not_started() -> Iterator[None]:
    """Raise ProcessNotStarted if the system cannot start a process (no memory, too many processes)."""
    try:
        yield
    except OSError as error:
        raise could_not_start(str(error.strerror)) from error


def could_not_start(reason: str) -> ProcessNotStarted:
    return ProcessNotStarted(
        f"Foresight could not start a process of its own ({reason}): close other programs, then try again."
    )


def serve(work: Callable[[bytes, Say], None]) -> NoReturn:
    """Run as the child: handle the request on standard input, then exit, even if threads still run."""
    say, requests = _messages_alone(), _requests()
    work(requests.get(), say)
    os._exit(0)


def serve_each(work: Callable[[bytes], bytes]) -> NoReturn:
    """Run as the child of `ask`: answer each line until standard input is closed."""
    say, requests = _messages_alone(), _requests()
    while True:
        say(work(requests.get()))


def serve_until_closed(work: Callable[[BinaryIO, Say], None]) -> NoReturn:
    """Run as the child: `work` reads requests until their end. Then this process and its group end."""
    try:
        work(sys.stdin.buffer, _messages_alone())
    finally:
        end_group()


def end_group() -> NoReturn:
    """End this process, and its group if it leads one. Windows has no such groups."""
    if hasattr(os, "getpgrp") and os.getpgrp() == os.getpid():
        _kill_group(os.getpid())
    os._exit(1)


def _kill_group(process: int) -> None:
    if hasattr(os, "killpg"):
        with suppress(ProcessLookupError, PermissionError):  # macOS refuses if the whole group has ended
            os.killpg(process, signal.SIGKILL)


def limit_memory(most: int) -> None:
    """Limit the address space of this process to `most` bytes, if the system supports it."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return
    with suppress(ValueError, OSError):  # macOS refuses
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        allowed = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(resource.RLIMIT_AS, (allowed, allowed))


def python_command(*arguments: str) -> list[str]:
    """Return the command that runs this Python so that it imports nothing from the current folder."""
    return [sys.executable, "-P", *arguments]


def limit_processor_time(seconds: int) -> None:
    """Make this process raise OutOfProcessorTime after these seconds of processor time, if the system can."""
    try:
        import resource
    except ImportError:
        return

    def give_up(*_: object) -> NoReturn:
        # A finaliser or a library's callback may drop the error, but the system repeats the signal each second.
        raise OutOfProcessorTime

    with suppress(ValueError, OSError, AttributeError):  # Windows has no such limit
        signal.signal(signal.SIGXCPU, give_up)
        _, hard = resource.getrlimit(resource.RLIMIT_CPU)
        # If a library does not return to Python in the meantime, the system kills the process.
        most = seconds + SECONDS_TO_END if hard == resource.RLIM_INFINITY else hard
        resource.setrlimit(resource.RLIMIT_CPU, (min(seconds, int(most)), int(most)))


def seconds_left() -> float:
    """Return the seconds of processor time that this process may still use; infinity without a limit."""
    try:
        import resource
    except ImportError:
        return inf
    most, _ = resource.getrlimit(resource.RLIMIT_CPU)
    return inf if most == resource.RLIM_INFINITY else most - process_time()


def importing_environment() -> dict[str, str]:
    """Return this process's environment without secrets and without the current folder in its lists of folders.

    PYTHONPATH begins with the folder that contains this package."""
    environment = settled(without_secrets(os.environ))
    folders = (str(OWN_FOLDER.parent), environment.get("PYTHONPATH", ""))
    return {**environment, "PYTHONPATH": os.pathsep.join(filter(None, folders))}


def _messages_alone() -> Say:
    """Discard what libraries print from now on, and return the function that sends a message."""
    sys.stdout.flush()
    output = os.fdopen(os.dup(1), "wb")
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)

    def say(message: bytes) -> None:
        output.write(MARK + message)
        output.flush()

    return say


def _requests() -> SimpleQueue[bytes]:
    """Return a queue that gets each line of standard input. When the input is closed, this process ends."""
    requests: SimpleQueue[bytes] = SimpleQueue()

    def read() -> None:
        for line in sys.stdin.buffer:
            requests.put(line)
        os._exit(1)

    threading.Thread(target=read, daemon=True).start()
    return requests
