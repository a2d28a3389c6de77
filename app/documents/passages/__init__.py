"""A text cut into passages."""

from app.documents.passages.cutting import Cut, cut

__all__ = ["Cut", "cut"]
