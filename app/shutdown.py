"""A process that was asked to end does so, whatever its threads are at.

Python ends when its main thread does, and that one waits: for the interpreter's lock, which C code may hold, and
for threads that never come back. A thread of faulthandler waits for neither: it writes down where every thread
stands, and ends the process. What the stores have acknowledged is on the disk by then.
"""

import faulthandler
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SECONDS = 5.0
"""For the end of the app, from the moment that the person asks for it."""


def end_within(seconds: float, log: Path) -> None:
    """End this process after so many seconds if it still runs then; the log tells what held it up."""
    try:
        file = os.open(
            log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600
        )  # stays open until the process ends
    except OSError:  # a full disk does not keep the app from ending
        file = os.open(os.devnull, os.O_WRONLY)
    faulthandler.dump_traceback_later(seconds, exit=True, file=file)


@contextmanager
def ending_within(seconds: float) -> Iterator[None]:
    """As `end_within`, for a process that goes on once this is over."""
    with Path(os.devnull).open("ab") as nowhere:
        faulthandler.dump_traceback_later(seconds, exit=True, file=nowhere)
        try:
            yield
        finally:
            faulthandler.cancel_dump_traceback_later()
