"""A file read as text."""

from app.documents.reading.messages import Moved, Reading, Told, Words
from app.documents.reading.opening import open_file

__all__ = ["Moved", "Reading", "Told", "Words", "open_file"]
