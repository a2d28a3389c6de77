"""Finds the numbers of list items and headings in OpenDocument files, which are not in their text, by styles."""

import re
from collections.abc import Iterator

from lxml.etree import _Element as Element

from app.documents.reading.lists import BULLET, KINDS, Level, NumberedList

OUTLINE = "outline-style"
MAX_BASED = 10
"""Maximum length of a chain of styles, each of which is based on the next."""
NUMBER = re.compile(r"-?\d{1,9}", re.ASCII)
PATTERN = re.compile(r"%(\d)%")


def kind_of(element: Element) -> str:
    """Returns the name of an element without its namespace."""
    return str(element.tag).rpartition("}")[2]


def attribute(element: Element, name: str) -> str:
    """Returns the value of the attribute with this name in any namespace; "" without it."""
    return next((value for key, value in element.items() if key.endswith(f"}}{name}")), "")


def number_of(element: Element, name: str, usual: int = 1) -> int:
    """Returns the number in the attribute with this name; `usual` without such a number."""
    text = attribute(element, name)
    return int(text) if NUMBER.fullmatch(text) else usual


class Lists:
    def __init__(self, *roots: Element) -> None:
        """Prepares the lists; `roots` are the parts of a file with styles, of which later ones come first."""
        self._levels: dict[str, dict[int, Level]] = {}
        self._styles: dict[str, Element] = {}
        for root in roots:
            for one in root.iter("{*}list-style", f"{{*}}{OUTLINE}"):
                name = OUTLINE if kind_of(one) == OUTLINE else attribute(one, "name")
                self._levels[name] = dict(_levels(one))
            self._styles.update(
                (attribute(one, "name"), one)
                for one in root.iter("{*}style")
                if attribute(one, "family") == "paragraph"
            )
        self._outline = NumberedList(self._levels.get(OUTLINE, {}))
        self._open: list[tuple[str, NumberedList]] = []
        self._lists: dict[str, NumberedList] = {}
        """The lists by their ids after "#", and the newest list of each style by the style's name."""

    def begin(self, element: Element) -> None:
        """Enters a list or a list in a list."""
        style, around = attribute(element, "style-name"), self._open[-1:]
        if around and style in ("", around[0][0]):
            self._open += around
            return
        before = attribute(element, "continue-list")
        key = f"#{before}" if before else style
        is_continued = before or attribute(element, "continue-numbering") == "true"
        found = self._lists.get(key) if is_continued else None
        found = found or NumberedList(self._levels.get(style, {}))
        self._open.append((style, found))
        self._lists[style] = self._lists[f"#{attribute(element, 'id')}"] = found

    def end(self) -> None:
        self._open.pop()

    def item_label(self, item: Element) -> str:
        """Counts the next item of the innermost list, and returns its number or bullet with a space."""
        place, one = len(self._open) - 1, self._open[-1][1] if self._open else NumberedList({})
        label = _next_label(one, place, item)
        return label if place in one.levels else f"{BULLET} "

    def heading_label(self, heading: Element, level: int) -> str:
        """Counts the next heading of a level outside of lists, and returns its number with a space.

        Returns "" for a heading without a number."""
        if (
            self._open
            or attribute(heading, "is-list-header") == "true"
            or self._has_list(attribute(heading, "style-name"))
        ):
            return ""
        return _next_label(self._outline, level - 1, heading)

    def _has_list(self, name: str) -> bool:
        """Returns whether a paragraph's style names a list, or none, in place of the outline's numbers."""
        for _ in range(MAX_BASED):
            style = self._styles.get(name)
            if style is None:
                return False
            if any(key.endswith("}list-style-name") for key, _ in style.items()):
                return True
            name = attribute(style, "parent-style-name")
        return False


def _next_label(one: NumberedList, place: int, element: Element) -> str:
    start = number_of(element, "start-value", usual=-1)
    if start >= 0:
        one.begins[place] = start
    label = one.next_label(place)
    label = (element.findtext("{*}number") or "").strip() or label
    return f"{label} " if label else ""


def _levels(style: Element) -> Iterator[tuple[int, Level]]:
    """Yields the levels of a list's style, each after its index."""
    kinds: dict[int, str] = {}
    for one in style:
        place = number_of(one, "level") - 1
        is_numbered = kind_of(one) in ("list-level-style-number", "outline-level-style")
        number_format = attribute(one, "num-format") if is_numbered else ""
        kinds[place] = KINDS.get(number_format, "decimal") if number_format else ""
        kind = kinds[place] or ("none" if is_numbered else "bullet")
        shown = range(max(0, place + 1 - number_of(one, "display-levels")), place + 1)
        numbers = ".".join(f"%{upper + 1}" for upper in shown if kinds.get(upper))
        text = f"{attribute(one, 'num-prefix')}{numbers}{attribute(one, 'num-suffix')}"
        if pattern := attribute(one, "num-list-format"):
            text = PATTERN.sub(r"%\1", pattern)
        text = text.strip() if kinds[place] else ""
        yield place, Level(number_of(one, "start-value"), kind, text, restart=place)
