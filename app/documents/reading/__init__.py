"""Reads the text of documents, in a child process unless they are plain text."""

from app.documents.reading.formats import FileReader, open_reader
from app.documents.reading.process import ReadNote, ReadProgress, ReadTitle, TextPiece

__all__ = ["ReadProgress", "FileReader", "ReadNote", "ReadTitle", "TextPiece", "open_reader"]
