"""Chooses how a file is read: by its first bytes where they tell, else by its name. Text files are read here."""

import codecs
from collections.abc import Iterator
from itertools import chain
from pathlib import Path, PurePath

from app.documents.reading.encodings import encoding_of, is_binary
from app.documents.reading.process import (
    FileReader,
    ProcessReader,
    ReadMessage,
    ReadNote,
    ReadProgress,
    ReadRequest,
    TextPiece,
    seconds_for,
)
from app.documents.reading.unsupported import FORMATS, require_supported
from app.errors import DocumentUnreadable

PIECE = 2**20
REPLACED = "\ufffd"
FORMS_BY_SUFFIX = {
    ".pdf": "pdf",
    ".docx": "docx",
    ".docm": "docx",
    ".html": "html",
    ".htm": "html",
    ".xhtml": "html",
}
FORMS_BY_MAGIC = {b"%PDF-": "pdf", b"PK\x03\x04": "docx"}


class TextFileReader:
    """A text file that is being read."""

    def __init__(self, path: Path, name: str) -> None:
        self._path = path
        self._name = name
        self._is_over = False

    def messages(self) -> Iterator[ReadMessage]:
        """Yields its text, then a note about its encoding."""
        try:
            with self._path.open("rb") as file:
                yield from self._pieces(iter(lambda: file.read(PIECE), b""), self._path.stat().st_size)
        except OSError as error:
            raise DocumentUnreadable(
                f"{self._name} cannot be read ({error.strerror}): add it again."
            ) from error

    def kill(self) -> None:
        """Read no further."""
        self._is_over = True

    def _pieces(self, pieces: Iterator[bytes], total: int) -> Iterator[ReadMessage]:
        first = next(pieces, b"")
        encoding = encoding_of(first)
        if not encoding.name.startswith(("utf-16", "utf-32")) and is_binary(first):
            raise DocumentUnreadable(
                f"{self._name} is no text. Save it as one of these, and add that: {FORMATS}."
            )
        decoder = codecs.getincrementaldecoder(encoding.name)("replace")
        replaced = done = 0
        for piece in chain([first], pieces):
            text = decoder.decode(piece)
            replaced += text.count(REPLACED) - piece.count(REPLACED.encode())
            done += len(piece)
            yield TextPiece(text)
            yield ReadProgress(done, total)
            if self._is_over:
                return
        last = decoder.decode(b"", final=True)
        replaced += last.count(REPLACED)
        yield TextPiece(last)
        if encoding.is_guess:
            yield ReadNote(f"Its encoding was guessed: {encoding.name}.")
        if replaced > 0:
            yield ReadNote(_replaced(replaced))


def _replaced(count: int) -> str:
    if count == 1:
        return f"1 character could not be read and stands as {REPLACED}."
    return f"{count:,} characters could not be read and stand as {REPLACED}."


def open_reader(path: Path, name: str) -> FileReader:
    """The reading of a file that the person calls `name`. Raises DocumentUnreadable."""
    beginning = _beginning(path, name)
    if not beginning:
        raise DocumentUnreadable(f"{name} is empty: there is nothing to read.")
    require_supported(beginning, name)
    form = next((form for mark, form in FORMS_BY_MAGIC.items() if beginning.startswith(mark)), "")
    form = form or FORMS_BY_SUFFIX.get(PurePath(name).suffix.lower(), "")
    if not form:
        return TextFileReader(path, name)
    return ProcessReader(
        ReadRequest(str(path.absolute()), name, form, seconds=seconds_for(path.stat().st_size))
    )


def _beginning(path: Path, name: str) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(64)
    except OSError as error:
        raise DocumentUnreadable(f"{name} cannot be read ({error.strerror}): add it again.") from error
