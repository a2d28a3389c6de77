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


def first_marker(text: str, markers: Collection[str]) -> tuple[int, str]:
    """Return the position of the first marker, and the longest marker that begins there.

    If there is none, or if the text ends where an earlier or a longer marker may still follow, returns the length
    of the text that certainly contains no marker, and ""."""
    places = {marker: place for marker in markers if (place := text.find(marker)) >= 0}
    begun = len(text) - beginning_at_end(text, markers)
    first = min(places.values(), default=len(text))
    rest = text[first:]
    if begun < first or not places or any(len(one) > len(rest) and one.startswith(rest) for one in markers):
        return min(begun, first), ""
    return first, max((marker for marker, place in places.items() if place == first), key=len)
