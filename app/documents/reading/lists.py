"""Counts the items of numbered lists, and writes their numbers as the list says.

the third item of level 1, whose text is "%1.%2", below the second item of level 0    ->  "2.3"
"""

import re
from dataclasses import dataclass, field

BULLET = "-"
KINDS = {"1": "decimal", "a": "lowerAlpha", "A": "upperAlpha", "i": "lowerRoman", "I": "upperRoman"}
"""The kinds of numbers, by the first number of each, as HTML and OpenDocument name them."""
ROMAN = ((1000, "m"), (900, "cm"), (500, "d"), (400, "cd"), (100, "c"), (90, "xc"), (50, "l"), (40, "xl"),
         (10, "x"), (9, "ix"), (5, "v"), (4, "iv"), (1, "i"))  # fmt: skip
PLACE = re.compile(r"%([1-9])")
MOST_LETTERS = 9


@dataclass(frozen=True, slots=True)
class Level:
    """The numbering of a level. `text` is the pattern of its numbers, such as "%1.%2".

    Counting starts again after an item whose level has an index below `restart`."""

    start: int
    kind: str
    text: str
    restart: int
    is_legal: bool = False


@dataclass(slots=True)
class NumberedList:
    """A list. The keys of `levels`, `counts` and `begins` are indices of levels; `styles` has each style's level.

    `counts` has the newest numbers, which several lists may share. `begins` has the next number of each level for
    which a number is set."""

    levels: dict[int, Level]
    counts: dict[int, int] = field(default_factory=dict)
    begins: dict[int, int] = field(default_factory=dict)
    styles: dict[str, int] = field(default_factory=dict)

    def next_label(self, place: int) -> str:
        """Counts the next item of a level, and returns its number or BULLET; "" if the level has no numbers."""
        level, counts = self.levels.get(place), self.counts
        if level is None:
            return ""
        counts[place] = self.begins.pop(place, counts.get(place, level.start - 1) + 1)
        for deeper in [lower for lower in counts if lower > place]:
            if deeper in self.levels and self.levels[deeper].restart > place:
                del counts[deeper]
        if level.kind == "bullet":
            return BULLET
        return PLACE.sub(lambda at: self._part(int(at[1]) - 1, level), level.text)

    def _part(self, place: int, wanted: Level) -> str:
        level = self.levels.get(place, wanted)
        return written(self.counts.get(place, level.start), "decimal" if wanted.is_legal else level.kind)


def written(number: int, kind: str) -> str:
    """Returns a number in the format of a list, such as 4, 04, d or iv.

    After z the kind "lowerLetter" continues with aa, bb, and "lowerAlpha" with aa, ab."""
    found = f"{number:02}" if kind == "decimalZero" else str(number)
    if kind.endswith("Letter") and number > 0:
        found = chr(ord("a") + (number - 1) % 26) * min((number + 25) // 26, MOST_LETTERS)
    elif kind.endswith("Alpha") and number > 0:
        found = ""
        while number:
            number, letter = divmod(number - 1, 26)
            found = chr(ord("a") + letter) + found
    elif kind.endswith("Roman") and 0 < number < 4000:
        found = ""
        for size, sign in ROMAN:
            found, number = found + sign * (number // size), number % size
    return found.upper() if kind.startswith("upper") else found
