"""A chat's messages as a tree of ids, which grow. 0 is the root, which is not a message.

0 ── 1 ── 2 ── 5 ── 6        path_to(6) == (1, 2, 5, 6)
     │    └── 7              versions(5) == (5, 7)
     └─ 3                    versions(2) == (2, 3); newest_below(2) == 7
"""

from collections.abc import Iterable, Iterator

ROOT = 0


class MessageTree:
    """Parents and children of messages."""

    def __init__(self, parents: Iterable[tuple[int, int]]) -> None:
        """`parents` are (message, its parent), in any order."""
        self._parents = dict(parents)
        children: dict[int, list[int]] = {}
        for message in sorted(self._parents):
            children.setdefault(self._parents[message], []).append(message)
        # Siblings share one tuple: a chat with thousands of first messages would need millions of entries.
        self._children = {parent: tuple(below) for parent, below in children.items()}

    def __contains__(self, message: int) -> bool:
        return message in self._parents

    def __iter__(self) -> Iterator[int]:
        return iter(self._parents)

    def parent(self, message: int) -> int:
        """The parent message."""
        return self._parents[message]

    def path_to(self, message: int) -> tuple[int, ...]:
        """All messages from the first one down to this one; () for the root."""
        path = []
        while message != ROOT:
            path.append(message)
            message = self._parents[message]
        return tuple(reversed(path))

    def versions(self, message: int) -> tuple[int, ...]:
        """The message and its siblings, oldest first."""
        return self._children[self._parents[message]]

    def all_below(self, message: int) -> list[int]:
        """The message and all that hang from it."""
        found = [message]
        for each in found:  # it grows meanwhile
            found += self._children.get(each, ())
        return found

    def newest_below(self, message: int) -> int:
        """The leaf that is reached from here by the newest version of each message."""
        while below := self._children.get(message):
            message = below[-1]
        return message
