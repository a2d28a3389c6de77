"""Where one page stands in the documents' view."""

from dataclasses import dataclass, field
from typing import Literal

from app.document_messages import PassageHit

LISTED = 100
"""Documents that a page lists at first, and how many more each time it is asked."""


@dataclass(frozen=True, slots=True)
class Question:
    """What a page asks about in place before it is lost: a collection or a document."""

    about: Literal["", "collection", "document"] = ""
    name: int = 0

    def of(self, about: str) -> int:
        """The id that is asked about, if it is one of these."""
        return self.name if self.about == about else 0


@dataclass(frozen=True, slots=True)
class Result:
    """What a search has found, or why it could not."""

    searched: str = ""
    found: tuple[PassageHit, ...] = ()
    problem: str = ""


@dataclass(slots=True)
class DocumentsSeat:
    """One page's own state, shared by its events and its watcher. Collection 0 is the first there is."""

    collection: int = 0
    listed: int = LISTED
    question: Question = field(default_factory=Question)
    result: Result = field(default_factory=Result)

    def open(self, collection: int) -> None:
        """Show this collection."""
        self.collection, self.listed = collection, LISTED
        self.question, self.result = Question(), Result()
