"""How a file is read, by its beginning and its name."""

from pathlib import Path

from app.documents.reading.messages import Reading
from app.documents.reading.plain import PlainReading


def open_file(path: Path, name: str) -> Reading:
    """The reading of a file that the person calls `name`. Raises DocumentUnreadable."""
    return PlainReading(path, name)
