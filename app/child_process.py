"""A process of the app's own beside it: one line goes in, lines come out.

Whatever it does to itself it does not do to the app, and ending it ends whatever it was at. The other way round it
ends by itself when its standard input does, so an app that was killed leaves no process behind either.

    app:    with ChildProcess("app.x.child_main", b"job\\n") as child:  for line in child.lines(): ...
    child:  def main() -> None:  serve(lambda job, say: say(b"done\\n"))
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
NOTHING: Mapping[str, str] = {}
Say = Callable[[bytes], None]


class ChildProcess:
    """A module of this app run as a process, with its job. `kill` may be called from any thread, at any time."""

    def __init__(self, module: str, job: bytes = b"", environment: Mapping[str, str] = NOTHING) -> None:
        self._job = job
        with not_started():
            self._process = subprocess.Popen(
                [sys.executable, "-m", module],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={**importing_environment(), **environment},
                start_new_session=True,  # Ctrl+C in the terminal is the app's to answer
            )
        assert self._process.stdin and self._process.stdout
        self._input, self._output = self._process.stdin, self._process.stdout

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End it and let go of its pipes."""
        self.kill()
        with suppress(OSError):  # it would still write what a process that is gone never read
            self._input.close()
        self._output.close()

    @property
    def pid(self) -> int:
        """The process's number."""
        return self._process.pid

    def lines(self) -> Iterator[bytes]:
        """Give it its job, and what it says until it ends: nothing of one that ended before it had its job.

        Of a killed one the last line may be half of one, which is left out."""
        with suppress(OSError):
            self._input.write(self._job)
            self._input.flush()
        yield from (line for line in self._output if line.endswith(b"\n"))

    def ask(self, job: bytes, seconds: float) -> bytes:
        """The line that it says to a job; b"" where it ended instead, or was ended after so many seconds."""
        timer = threading.Timer(seconds, self.kill)
        timer.daemon = True
        timer.start()
        try:
            self._input.write(job)
            self._input.flush()
            answer = self._output.readline()
        except OSError:  # it ended while it was asked
            return b""
        finally:
            timer.cancel()
        return answer if answer.endswith(b"\n") else b""

    def kill(self) -> None:
        """End it; returns when it is gone. One that waits for a dead disk cannot be ended, and is left alone."""
        if self._process.poll() is None:
            self._process.kill()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(SECONDS_TO_END)


@contextmanager
def not_started() -> Iterator[None]:
    """Turn what the system says where it starts no process (no memory, too many of them) into a sentence."""
    try:
        yield
    except OSError as error:
        raise ProcessNotStarted(
            f"Foresight could not start a process of its own ({error.strerror}): "
            "close other programs, then try again."
        ) from error


def serve(work: Callable[[bytes, Say], None]) -> NoReturn:
    """The child's side: do the job that standard input names, say lines, and end whatever still waits."""
    job = sys.stdin.buffer.readline()
    threading.Thread(target=_end_with_the_app, daemon=True).start()
    work(job, _say)
    os._exit(0)


def serve_each(work: Callable[[bytes], bytes]) -> NoReturn:
    """The child's side of `ask`: a line to each line, until standard input ends."""
    jobs: SimpleQueue[bytes] = SimpleQueue()
    threading.Thread(target=_read_jobs, args=(jobs,), daemon=True).start()
    while True:
        _say(work(jobs.get()))


def limit_memory(most: int) -> None:
    """Let this process take so many bytes of address space, where the system counts them."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return
    with suppress(ValueError, OSError):  # nor has macOS, which refuses to be asked
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        allowed = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(resource.RLIMIT_AS, (allowed, allowed))


def importing_environment() -> dict[str, str]:
    """This process's environment, with this very package to import wherever the app was started."""
    places = (str(Path(__file__).parent.parent), os.environ.get("PYTHONPATH", ""))
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, places))}


def _say(line: bytes) -> None:
    sys.stdout.buffer.write(line)
    sys.stdout.buffer.flush()


def _read_jobs(jobs: SimpleQueue[bytes]) -> None:
    for line in sys.stdin.buffer:
        jobs.put(line)
    os._exit(1)


def _end_with_the_app() -> None:
    sys.stdin.buffer.read()
    os._exit(1)
