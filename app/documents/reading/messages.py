"""What a file says while it is read."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Words:
    """The next piece of the text."""

    text: str


@dataclass(frozen=True, slots=True)
class Moved:
    """How far it is: pages, paragraphs or bytes."""

    done: int
    total: int


@dataclass(frozen=True, slots=True)
class Told:
    """A sentence for the person about what was left out or changed."""

    note: str


Message = Words | Moved | Told


class Reading(Protocol):
    """A file that is being read."""

    def messages(self) -> Iterator[Message]:
        """Its text, piece by piece. Raises DocumentUnreadable in words."""

    def kill(self) -> None:
        """End it from any thread; then `messages` ends, too."""
