"""Ends the process within a time limit, even if a thread hangs or C code holds the interpreter's lock (GIL).

No saved data is lost, because a write to a store returns only when it is on the disk.
"""

import faulthandler
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

SECONDS = 5.0
"""Maximum number of seconds between the user's request to close the app and the end of the process."""


def end_within(seconds: float, log: Path) -> None:
    """Start a timer that ends this process after this many seconds, and logs the stacks of its threads."""
    try:
        # The file stays open until the process ends.
        file = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    except OSError:  # even if the log cannot be opened (a full disk), the process must end
        file = os.open(os.devnull, os.O_WRONLY)
    with suppress(RuntimeError):  # without a new thread for the timer, there is no time limit
        faulthandler.dump_traceback_later(seconds, exit=True, file=file)


@contextmanager
def ending_within(seconds: float) -> Iterator[None]:
    """End this process if the block takes longer than this many seconds."""
    with Path(os.devnull).open("ab") as nowhere:
        faulthandler.dump_traceback_later(seconds, exit=True, file=nowhere)
        try:
            yield
        finally:
            faulthandler.cancel_dump_traceback_later()
