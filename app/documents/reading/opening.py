"""How a file is read: by its first bytes where they say it, else by its name's ending."""

from pathlib import Path, PurePath

from app.documents.reading.child import ChildReading, Job
from app.documents.reading.messages import Reading
from app.documents.reading.plain import PlainReading
from app.errors import DocumentUnreadable

ENDINGS = {".pdf": "pdf", ".docx": "docx", ".docm": "docx", ".html": "html", ".htm": "html", ".xhtml": "html"}
BEGINNINGS = {b"%PDF-": "pdf", b"PK\x03\x04": "docx"}
OTHERS = {b"\xd0\xcf\x11\xe0": "an old or encrypted Office file", b"{\\rtf": "a rich text file"}
"""What begins like this can be saved as something that is read."""


def open_file(path: Path, name: str) -> Reading:
    """The reading of a file that the person calls `name`. Raises DocumentUnreadable."""
    beginning = _beginning(path, name)
    if not beginning:
        raise DocumentUnreadable(f"{name} is empty: there is nothing to read.")
    for mark, what in OTHERS.items():
        if beginning.startswith(mark):
            raise DocumentUnreadable(
                f"{name} is {what}: save it as DOCX or PDF, without a password, and add that."
            )
    form = next((form for mark, form in BEGINNINGS.items() if beginning.startswith(mark)), "")
    form = form or ENDINGS.get(PurePath(name).suffix.lower(), "")
    return ChildReading(Job(str(path), name, form)) if form else PlainReading(path, name)


def _beginning(path: Path, name: str) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(8)
    except OSError as error:
        raise DocumentUnreadable(f"{name} cannot be read ({error.strerror}): add it again.") from error
