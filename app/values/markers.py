"""Markers in texts: the tags of thoughts, and the search for a marker that a growing text may have begun."""

from collections.abc import Collection

OPENING, CLOSING = "<think>", "</think>"
"""The tags between which a reply's thought is written, in stored chats and everywhere else."""


def beginning_at_end(text: str, markers: Collection[str]) -> int:
    """Return the length of the longest suffix of `text` that begins a marker: ("so EN", ["END"]) -> 2."""
    longest = max(map(len, markers), default=1) - 1
    for length in range(min(longest, len(text)), 0, -1):
        if any(marker.startswith(text[-length:]) for marker in markers):
            return length
    return 0
