"""Reads a file in a separate process with limits of memory and time, so that a crash or a leak of a reader does not
affect the app."""

import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, fields
from importlib import import_module
from pathlib import Path
from time import monotonic
from typing import Any

from app.errors import DocumentUnreadable
from app.system.child_process import ChildProcess, understanding
from app.values.display_text import counted
from app.values.validation import require

LEAST_SECONDS, SECONDS_PER_MEGABYTE, MOST_SECONDS = 30, 30, 1800
"""Limits of a reader's processor time in seconds. A megabyte of any format takes less than ten."""
WAITING = 4
"""Maximum time spent waiting for a reader, as a multiple of the limit of its processor time. It is more than 1,
because other programs use the processor, too."""
PIECE = 2**16
"""Maximum characters of a text in a message, because the app's other threads wait while a message is parsed."""
MAX_MEMORY = 2 * 2**30
"""Bytes of address space that a reader may use, if the system can limit them; with OCR twice as many."""


@dataclass(frozen=True, slots=True)
class TextPiece:
    text: str


@dataclass(frozen=True, slots=True)
class ReadProgress:
    """Progress of reading, in a unit of the format, such as pages or bytes."""

    done: int
    total: int


@dataclass(frozen=True, slots=True)
class ReadNote:
    """A sentence for the user about what was skipped or changed."""

    note: str


@dataclass(frozen=True, slots=True)
class ReadTitle:
    """The title in a file's properties; "" if it has none."""

    title: str


ReadMessage = TextPiece | ReadProgress | ReadNote | ReadTitle


Read = Callable[[Path, str], Iterator[ReadMessage]]
"""Takes a file and its name for the user; yields its text, progress and notes. Raises DocumentUnreadable."""


def reader_of(form: str) -> Read:
    """Imports the module of a format only when it is needed. Returns the module's function that reads a file."""
    read: Read = getattr(import_module(f"app.documents.reading.{form}"), f"read_{form}")
    return read


@dataclass(frozen=True, slots=True)
class ReadRequest:
    """A file to read, its name for the user, and its format `form`, which names the module that reads it.

    `memory` limits the reader's address space in bytes, and `seconds` limits its processor time."""

    path: str
    name: str
    form: str
    memory: int = MAX_MEMORY
    seconds: int = LEAST_SECONDS


@dataclass(frozen=True, slots=True)
class ReadFailed:
    """The message that the file cannot be read, with the reason as a sentence."""

    sentence: str


@dataclass(frozen=True, slots=True)
class ReadEnded:
    """The message that the whole file has been read."""


ProcessMessage = ReadMessage | ReadFailed | ReadEnded
MESSAGE_TYPES: dict[str, type[ReadMessage | ReadFailed | ReadEnded]] = {
    kind.__name__: kind for kind in (TextPiece, ReadProgress, ReadNote, ReadTitle, ReadFailed, ReadEnded)
}


def seconds_for(size: int) -> int:
    """Returns the seconds of processor time that reading a file of `size` bytes may take."""
    return min(LEAST_SECONDS + SECONDS_PER_MEGABYTE * size // 2**20, MOST_SECONDS)


def to_line(value: ProcessMessage | ReadRequest) -> bytes:
    return json.dumps({"is": type(value).__name__, **asdict(value)}).encode() + b"\n"


def request_from_line(line: bytes) -> ReadRequest:
    values: dict[str, Any] = json.loads(line)
    values.pop("is")
    return ReadRequest(**values)


def message_from_line(line: bytes) -> ProcessMessage:
    """Reads a message of `to_line`. For anything else, raises an error that `understanding` translates."""
    values: dict[str, Any] = json.loads(line)
    kind = MESSAGE_TYPES[values.pop("is")]
    for field in fields(kind):
        value = values[field.name]
        require(type(value) is field.type, f"{kind.__name__}.{field.name} must be of its type", value)
    return kind(**values)


class ProcessReader:
    def __init__(self, request: ReadRequest, waiting: float = WAITING) -> None:
        self._name = request.name
        self.request = request
        self._allowed = request.seconds * waiting
        self._is_killed = threading.Event()
        self._process: ChildProcess | None = None

    def messages(self) -> Iterator[ReadMessage]:
        """Yields the messages until the process ends or is killed. Raises DocumentUnreadable, ProcessNotStarted."""
        with ChildProcess("app.documents.reading.process_main", to_line(self.request)) as process:
            self._process = process
            if self._is_killed.is_set():  # killed before `self._process` was set
                return
            yield from self._messages(process)

    def kill(self) -> None:
        """Kills the process, or prevents its work if it has not started."""
        self._is_killed.set()
        if self._process:
            self._process.kill()

    def _messages(self, process: ChildProcess) -> Iterator[ReadMessage]:
        timer, is_ended = _WaitingTimer(process, self._allowed), False
        for line in process.lines():
            timer.pause()
            with understanding(self._ended_unexpectedly()):
                message = message_from_line(line)
            if is_ended := isinstance(message, ReadEnded):
                break
            if isinstance(message, ReadFailed):
                raise DocumentUnreadable(message.sentence)
            yield message
            timer.resume()
        timer.stop()
        if is_ended or self._is_killed.is_set():
            return
        if timer.has_expired:
            seconds = counted(round(self._allowed), "second")
            raise DocumentUnreadable(
                f"Reading {self._name} was stopped after {seconds}: split it, or save it in another format, "
                "as text for example, and add that file."
            )
        raise self._ended_unexpectedly()

    def _ended_unexpectedly(self) -> DocumentUnreadable:
        return DocumentUnreadable(
            f"Reading {self._name} ended unexpectedly. Save it again, or as text, and add that file."
        )


class _WaitingTimer:
    """Kills a process when the total time spent waiting for its messages exceeds `seconds`."""

    def __init__(self, process: ChildProcess, seconds: float) -> None:
        self.has_expired = False
        self._process = process
        self._seconds = seconds
        self.resume()

    def pause(self) -> None:
        self.stop()
        self._seconds = max(0.0, self._seconds - (monotonic() - self._began))

    def resume(self) -> None:
        self._timer, self._began = threading.Timer(self._seconds, self._give_up), monotonic()
        self._timer.daemon = True
        self._timer.start()

    def stop(self) -> None:
        self._timer.cancel()

    def _give_up(self) -> None:
        self.has_expired = True
        self._process.kill()
