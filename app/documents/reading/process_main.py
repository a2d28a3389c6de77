"""The process that reads one file. It takes a request on standard input and sends messages on standard output."""

from pathlib import Path

from app.documents.reading.process import (
    PIECE,
    ReadEnded,
    ReadFailed,
    ReadRequest,
    TextPiece,
    reader_of,
    request_from_line,
    to_line,
)
from app.errors import DocumentUnreadable, first_line
from app.system.child_process import OutOfProcessorTime, Say, limit_memory, limit_processor_time, serve
from app.values.display_text import counted

NO_MEMORY = "failed to map segment"
"""Part of the dynamic linker's message if a library does not fit into the memory that the process may use."""


def read(line: bytes, say: Say) -> None:
    """Reads the requested file within its limits; sends its text, and at last whether reading succeeded."""
    request = request_from_line(line)
    limit_memory(request.memory)
    limit_processor_time(request.seconds)
    say(to_line(_read(request, say)))


def _read(request: ReadRequest, say: Say) -> ReadFailed | ReadEnded:
    try:
        for message in reader_of(request.form)(Path(request.path), request.name):
            if isinstance(message, TextPiece):
                for at in range(0, len(message.text), PIECE):
                    say(to_line(TextPiece(message.text[at : at + PIECE])))
            else:
                say(to_line(message))
    except DocumentUnreadable as error:
        return ReadFailed(str(error))
    except OutOfProcessorTime:
        seconds = counted(request.seconds, "second")
        return ReadFailed(
            f"Reading {request.name} takes more than {seconds} of processor time: split it, or save it as text, "
            "and add that file."
        )
    except RecursionError:
        return ReadFailed(
            f"{request.name} is nested too deeply to be read: save it again, or as text, and add that file."
        )
    except (MemoryError, ImportError) as error:
        if isinstance(error, ImportError) and NO_MEMORY not in str(error):
            return ReadFailed(
                f"{request.name} was not read, because a part of Foresight is missing ({first_line(error)}): "
                "install Foresight again as in its README, then add the file again."
            )
        return ReadFailed(
            f"Reading {request.name} takes more than {request.memory / 2**30:.1f} GiB of memory: split it, or "
            "save it as text, and add that file."
        )
    except Exception:  # for a malformed file, libraries raise errors of any kind, with words for programmers
        return ReadFailed(f"{request.name} is damaged: save it again, or as text, and add that file.")
    return ReadEnded()


if __name__ == "__main__":
    serve(read)
