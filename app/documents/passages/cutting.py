"""A text cut into passages."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

MOST = 1_500
END = re.compile(r"\n\s*\n")


@dataclass(frozen=True, slots=True)
class Cut:
    """A passage's place in its text, its words, and the path of headings above it."""

    start: int
    end: int
    text: str
    heading: str = ""


def cut(parts: Iterable[str]) -> Iterator[Cut]:
    """The passages of a text that comes in parts."""
    text = "".join(parts)
    start = 0
    while start < len(text):
        window = text[start : start + MOST]
        ends = [found.end() for found in END.finditer(window)]
        size = len(window) if len(window) < MOST or not ends else ends[-1]
        words = window[:size].strip()
        if words:
            at = start + window.index(words[0])
            yield Cut(at, at + len(words), words)
        start += size
