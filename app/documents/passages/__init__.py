"""A text cut into passages by its structure: headings, paragraphs, lists, sentences, blocks of code."""

from app.documents.passages.cutting import Cut, cut
from app.documents.passages.scanning import scanner_of

__all__ = ["Cut", "cut", "scanner_of"]
