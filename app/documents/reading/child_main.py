"""The process that reads one file: a job on standard input, messages on standard output.

It ends when its standard input does: that is the app's end.
"""

import os
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from app.documents.reading.child import ChildMessage, Ended, Job, Refused, job_from_line, to_line
from app.documents.reading.messages import Message
from app.errors import DocumentUnreadable, first_line

Read = Callable[[Path, str], Iterator[Message]]


def main() -> None:
    """Read the file that the first line of standard input names."""
    job = job_from_line(sys.stdin.buffer.readline())
    threading.Thread(target=_end_with_the_app, daemon=True).start()
    _limit_memory(job.memory)
    _say(_read(job))
    sys.stdout.flush()
    os._exit(0)


def _read(job: Job) -> Refused | Ended:
    """Say everything of a file; how it ended."""
    try:
        for message in _reader(job.form)(Path(job.path), job.name):
            _say(message)
    except DocumentUnreadable as error:
        return Refused(str(error))
    except (MemoryError, RecursionError):
        return Refused(
            f"Reading {job.name} takes more than {job.memory / 2**30:.1f} GB of memory: split it, or save it "
            "as text, and add that."
        )
    except Exception as error:  # libraries that read what anybody may have written raise anything
        return Refused(
            f"{job.name} is damaged ({first_line(error)}): save it anew, or as text, and add that."
        )
    return Ended()


def _reader(form: str) -> Read:
    """What reads files of this form: imported here, for each takes a while."""
    if form == "pdf":
        from app.documents.reading.pdf import read_pdf

        return read_pdf
    if form == "docx":
        from app.documents.reading.docx import read_docx

        return read_docx
    from app.documents.reading.html import read_html

    return read_html


def _limit_memory(most: int) -> None:
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


def _say(message: ChildMessage) -> None:
    sys.stdout.buffer.write(to_line(message))
    sys.stdout.buffer.flush()


def _end_with_the_app() -> None:
    sys.stdin.buffer.read()
    os._exit(1)


if __name__ == "__main__":
    main()
