"""Finds the automatic numbers of a Word document's paragraphs, which are not in their text.

level 1 of list 3, whose text is "%1.%2", below the second paragraph of level 0    ->  "2.1"
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from docx.oxml.ns import nsmap
from docx.oxml.xmlchemy import BaseOxmlElement as Element

WORD = f"{{{nsmap['w']}}}"
MAX_BASED = 10
"""Maximum length of a chain of styles, each of which is based on the next."""
BULLET = "-"
ROMAN = ((1000, "m"), (900, "cm"), (500, "d"), (400, "cd"), (100, "c"), (90, "xc"), (50, "l"), (40, "xl"),
         (10, "x"), (9, "ix"), (5, "v"), (4, "iv"), (1, "i"))  # fmt: skip
NUMBER, LEVEL = "pPr/numPr/numId", "pPr/numPr/ilvl"
PLACE = re.compile(r"%([1-9])")


def value(element: Element, path: str) -> str:
    """Returns the value of the element at this path, such as "pPr/pStyle"; "" without it."""
    found = element.find("/".join(WORD + name for name in path.split("/")))
    return "" if found is None else str(found.get(f"{WORD}val", ""))


@dataclass(frozen=True, slots=True)
class _Level:
    """The numbering of a level. `text` is the pattern of its numbers, such as "%1.%2".

    Counting starts again after a paragraph whose level has an index below `restart`."""

    start: int
    kind: str
    text: str
    restart: int
    is_legal: bool


@dataclass(slots=True)
class _List:
    """A list. The keys of `levels`, `counts` and `begins` are indices of levels; `styles` has each style's level.

    `counts` has the newest numbers, which all lists with the same definition share. `begins` has the first number
    of each level for which this list sets a number."""

    levels: dict[int, _Level]
    styles: dict[str, int]
    counts: dict[int, int]
    begins: dict[int, int]


class Numbering:
    def __init__(self, root: Element | None, styles: Mapping[str, Element]) -> None:
        """Prepares the lists of a document; `styles` are its styles by id."""
        found = () if root is None else root
        self._styles = styles
        self._defined = {one.get(f"{WORD}numId"): one for one in found if one.tag == f"{WORD}num"}
        self._kinds = {
            one.get(f"{WORD}abstractNumId"): one for one in found if one.tag == f"{WORD}abstractNum"
        }
        self._counts: dict[str, dict[int, int]] = {}
        self._lists: dict[str, _List] = {}

    def label(self, paragraph: Element) -> str:
        """Counts the next paragraph, and returns its number or BULLET; "" if the paragraph is in no list."""
        number, place, style = self._place(paragraph)
        if number not in self._defined:
            return ""
        one = self._lists.get(number) or self._lists.setdefault(number, self._read(number))
        place = place if place >= 0 else one.styles.get(style, 0)
        level, counts = one.levels.get(place), one.counts
        if level is None:
            return ""
        counts[place] = one.begins.pop(place, counts.get(place, level.start - 1) + 1)
        for deeper in [lower for lower in counts if lower > place]:
            if deeper in one.levels and one.levels[deeper].restart > place:
                del counts[deeper]
        if level.kind == "bullet":
            return BULLET
        return PLACE.sub(lambda at: _part(int(at[1]) - 1, level, one), level.text)

    def _place(self, paragraph: Element) -> tuple[str, int, str]:
        """Returns the id of a paragraph's list, its level or -1, and the style by which it is in that list."""
        number, level = value(paragraph, NUMBER), value(paragraph, LEVEL)
        style = used = value(paragraph, "pPr/pStyle")
        for _ in range(MAX_BASED):
            if number or style not in self._styles:
                break
            used, element = style, self._styles[style]
            number, level = value(element, NUMBER), level or value(element, LEVEL)
            style = value(element, "basedOn")
        return number, _whole(level) if level else -1, used

    def _kind(self, number: str) -> Element:
        kind: Element = self._kinds.get(value(self._defined[number], "abstractNumId"), self._defined[number])
        style = self._styles.get(value(kind, "numStyleLink"))
        other = "" if style is None else value(style, NUMBER)
        if other in self._defined:
            kind = self._kinds.get(value(self._defined[other], "abstractNumId"), kind)
        return kind

    def _read(self, number: str) -> _List:
        kind, changed = self._kind(number), self._defined[number].findall(f"{WORD}lvlOverride")
        levels = [
            *kind.findall(f"{WORD}lvl"),
            *(one for each in changed for one in each.findall(f"{WORD}lvl")),
        ]
        begins = {
            _whole(one.get(f"{WORD}ilvl")): _whole(begin)
            for one in changed
            if (begin := value(one, "startOverride"))
        }
        counts = self._counts.setdefault(kind.get(f"{WORD}abstractNumId", ""), {})
        places = {value(one, "pStyle"): _whole(one.get(f"{WORD}ilvl")) for one in levels}
        return _List({_whole(one.get(f"{WORD}ilvl")): _level(one) for one in levels}, places, counts, begins)


def _level(element: Element) -> _Level:
    kind, restart = value(element, "numFmt"), value(element, "lvlRestart") or element.get(f"{WORD}ilvl")
    text = "" if kind == "none" else value(element, "lvlText").strip()
    is_legal = element.find(f"{WORD}isLgl") is not None
    return _Level(_whole(value(element, "start")), kind, text, _whole(restart), is_legal)


def _part(place: int, wanted: _Level, one: _List) -> str:
    level = one.levels.get(place, wanted)
    return written(one.counts.get(place, level.start), "decimal" if wanted.is_legal else level.kind)


def written(number: int, kind: str) -> str:
    """Returns a number in the format of a list, such as 4, 04, d or iv."""
    found = f"{number:02}" if kind == "decimalZero" else str(number)
    if kind.endswith("Letter") and number > 0:
        found = chr(ord("a") + (number - 1) % 26) * min((number + 25) // 26, 9)
    elif kind.endswith("Roman") and 0 < number < 4000:
        found = ""
        for size, sign in ROMAN:
            found, number = found + sign * (number // size), number % size
    return found.upper() if kind.startswith("upper") else found


def _whole(text: str | None) -> int:
    return int(text) if text and text.isdecimal() else 0
