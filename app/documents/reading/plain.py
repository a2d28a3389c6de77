"""Text files, read a piece at a time: however long one is, it takes no more memory than a piece."""

import codecs
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from app.documents.reading.encodings import encoding_of, is_binary
from app.documents.reading.messages import Message, Moved, Told, Words
from app.errors import DocumentUnreadable

PIECE = 2**20
REPLACED = "\ufffd"


class PlainReading:
    """A text file that is being read."""

    def __init__(self, path: Path, name: str) -> None:
        self._path = path
        self._name = name
        self._is_over = False

    def messages(self) -> Iterator[Message]:
        """Its text, then what is to be told of its encoding."""
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

    def _pieces(self, pieces: Iterator[bytes], total: int) -> Iterator[Message]:
        first = next(pieces, b"")
        encoding = encoding_of(first)
        if not encoding.name.startswith(("utf-16", "utf-32")) and is_binary(first):
            raise DocumentUnreadable(
                f"{self._name} is no text: save it as text, PDF, DOCX or HTML, and add that."
            )
        decoder = codecs.getincrementaldecoder(encoding.name)("replace")
        replaced = done = 0
        for piece in chain([first], pieces):
            text = decoder.decode(piece)
            replaced += text.count(REPLACED) - piece.count(REPLACED.encode())
            done += len(piece)
            yield Words(text)
            yield Moved(done, total)
            if self._is_over:
                return
        yield Words(decoder.decode(b"", final=True))
        if encoding.is_guess:
            yield Told(f"Its encoding was guessed: {encoding.name}.")
        if replaced > 0:
            yield Told(f"{replaced:,} characters could not be read and stand as {REPLACED}.")
