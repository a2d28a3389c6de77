"""A file read in a process of its own: what it does to its reader, it does not do to the app.

The reader gets so much memory and may be silent so long; it can be ended at any time.
"""

import json
import threading
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from app.child_process import ChildProcess
from app.documents.reading.messages import Message, Moved, Told, Words
from app.errors import DocumentUnreadable

SILENCE = 60.0
"""Seconds without a word, after which a reader is given up: a page takes far less than one."""
MEMORY = 2 * 2**30
"""Bytes of address space that a reader may take, where the system counts them."""


@dataclass(frozen=True, slots=True)
class Job:
    """A file to read, what the person calls it, and its form: "pdf", "docx" or "html"."""

    path: str
    name: str
    form: str
    memory: int = MEMORY


@dataclass(frozen=True, slots=True)
class Refused:
    """It cannot be read, as a sentence."""

    sentence: str


@dataclass(frozen=True, slots=True)
class Ended:
    """All of it has been said."""


ChildMessage = Message | Refused | Ended
KINDS: dict[str, type[Words | Moved | Told | Refused | Ended]] = {
    kind.__name__: kind for kind in (Words, Moved, Told, Refused, Ended)
}


def to_line(value: ChildMessage | Job) -> bytes:
    """A value as one line of JSON."""
    return json.dumps({"is": type(value).__name__, **asdict(value)}).encode() + b"\n"


def job_from_line(line: bytes) -> Job:
    """The job that was written by `to_line`."""
    values: dict[str, Any] = json.loads(line)
    values.pop("is")
    return Job(**values)


def message_from_line(line: bytes) -> ChildMessage:
    """The message that was written by `to_line`."""
    values: dict[str, Any] = json.loads(line)
    return KINDS[values.pop("is")](**values)


class ChildReading:
    """A file that a process reads."""

    def __init__(self, job: Job, silence: float = SILENCE) -> None:
        self._name = job.name
        self._job = job
        self._silence = silence
        self._is_killed = threading.Event()
        self._process: ChildProcess | None = None

    def messages(self) -> Iterator[Message]:
        """Its text; nothing more once it was killed."""
        with ChildProcess("app.documents.reading.child_main", to_line(self._job)) as process:
            self._process = process
            if self._is_killed.is_set():  # before there was a process to kill
                return
            yield from self._heard(process)

    def kill(self) -> None:
        """End the process, if it runs."""
        self._is_killed.set()
        if self._process:
            self._process.kill()

    def _heard(self, process: ChildProcess) -> Iterator[Message]:
        watch = _Watch(process, self._silence)
        for message in map(message_from_line, process.lines()):
            watch.rest()
            if isinstance(message, Ended):
                break
            if isinstance(message, Refused):
                watch.end()
                raise DocumentUnreadable(message.sentence)
            yield message
            watch.go_on()
        else:
            self._require_killed(watch)
        watch.end()

    def _require_killed(self, watch: "_Watch") -> None:
        """Raise DocumentUnreadable for a process that ended without a word, unless it was to."""
        watch.end()
        if self._is_killed.is_set():
            return
        if watch.was_silent:
            raise DocumentUnreadable(
                f"Reading {self._name} was given up after {self._silence:.0f} seconds without progress: "
                "save it in another form, as text for example, and add that."
            )
        raise DocumentUnreadable(
            f"Reading {self._name} ended unexpectedly: save it anew, or as text, and add that."
        )


class _Watch:
    """Ends a process that is silent for too long while somebody listens."""

    def __init__(self, process: ChildProcess, silence: float) -> None:
        self.was_silent = False
        self._process = process
        self._silence = silence
        self._timer = self._started()

    def rest(self) -> None:
        """It said something."""
        self._timer.cancel()

    def go_on(self) -> None:
        """It is listened to again."""
        self._timer = self._started()

    def end(self) -> None:
        """Nobody listens any more."""
        self._timer.cancel()

    def _started(self) -> threading.Timer:
        timer = threading.Timer(self._silence, self._give_up)
        timer.daemon = True
        timer.start()
        return timer

    def _give_up(self) -> None:
        self.was_silent = True
        self._process.kill()
