"""The process that reads one file: a request on standard input, messages on standard output."""

from collections.abc import Callable, Iterator
from pathlib import Path

from app.child_process import Say, limit_memory, serve
from app.documents.reading.process import (
    ReadEnded,
    ReadFailed,
    ReadMessage,
    ReadRequest,
    request_from_line,
    to_line,
)
from app.errors import DocumentUnreadable, first_line

Read = Callable[[Path, str], Iterator[ReadMessage]]


def read(line: bytes, say: Say) -> None:
    """Say what is in the file of a job, and how reading it ended."""
    request = request_from_line(line)
    limit_memory(request.memory)
    say(to_line(_read(request, say)))


def _read(request: ReadRequest, say: Say) -> ReadFailed | ReadEnded:
    try:
        for message in _reader(request.form)(Path(request.path), request.name):
            say(to_line(message))
    except DocumentUnreadable as error:
        return ReadFailed(str(error))
    except (MemoryError, RecursionError):
        return ReadFailed(
            f"Reading {request.name} takes more than {request.memory / 2**30:.1f} GB of memory: split it, or "
            "save it as text, and add that."
        )
    except Exception as error:  # libraries that read what anybody may have written raise anything
        return ReadFailed(
            f"{request.name} is damaged ({first_line(error)}): save it anew, or as text, and add that."
        )
    return ReadEnded()


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


if __name__ == "__main__":
    serve(read)
