"""The process that reads one file: a job on standard input, messages on standard output."""

from collections.abc import Callable, Iterator
from pathlib import Path

from app.child_process import Say, limit_memory, serve
from app.documents.reading.child import Ended, Job, Refused, job_from_line, to_line
from app.documents.reading.messages import Message
from app.errors import DocumentUnreadable, first_line

Read = Callable[[Path, str], Iterator[Message]]


def read(line: bytes, say: Say) -> None:
    """Say what is in the file of a job, and how reading it ended."""
    job = job_from_line(line)
    limit_memory(job.memory)
    say(to_line(_read(job, say)))


def _read(job: Job, say: Say) -> Refused | Ended:
    try:
        for message in _reader(job.form)(Path(job.path), job.name):
            say(to_line(message))
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


if __name__ == "__main__":
    serve(read)
