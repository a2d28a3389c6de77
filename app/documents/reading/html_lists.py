"""Finds the numbers of a web page's list items, which are not in its text, by the lists' attributes."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from app.documents.reading.lists import BULLET, KINDS, written

BULLET_MARK = f"{BULLET} "
LISTS = frozenset(("ol", "ul", "menu", "dir"))
NAMED_KINDS = {
    **KINDS, "decimal": "decimal", "decimal-leading-zero": "decimalZero", "lower-alpha": "lowerAlpha",
    "lower-latin": "lowerAlpha", "upper-alpha": "upperAlpha", "upper-latin": "upperAlpha",
    "lower-roman": "lowerRoman", "upper-roman": "upperRoman", "none": "", "disc": "", "circle": "", "square": "",
}  # fmt: skip
STYLE = re.compile(r"list-style(?:-type)?\s*:([^;]*)", re.IGNORECASE)
WHOLE = re.compile(r"\s*([+-]?\d{1,9})(?!\d)", re.ASCII)
COUNTED_LATER = re.compile(r"\0(\d+)\0")


@dataclass(slots=True)
class _List:
    """A list, which is open until `is_over`. `items` counts its items so far; `number` is the next item's number.

    If `is_backwards`, the list counts down from its number of items, which is unknown until it ends. Then `number`
    is relative to that number of items: 0, -1, -2."""

    tag: str
    kind: str
    number: int
    step: int
    is_backwards: bool
    items: int = 0
    is_over: bool = False


class HtmlLists:
    """Counts the items of the lists that are open."""

    def __init__(self) -> None:
        self._open: list[_List] = []
        self._later: list[tuple[_List, int, str]] = []
        """Items whose number is unknown until their list ends: the list, the difference to its number of items, and
        the kind of the number."""

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        if tag in LISTS:
            is_reversed, first = tag == "ol" and "reversed" in attributes, _whole(attributes.get("start"))
            kind = _kind(attributes, "decimal" if tag == "ol" else "")
            number = (0 if is_reversed else 1) if first is None else first
            step = -1 if is_reversed else 1
            self._open.append(_List(tag, kind, number, step, is_reversed and first is None))

    def end(self, tag: str) -> None:
        if self._open and tag == self._open[-1].tag:
            self._open.pop().is_over = True

    def mark(self, attributes: Mapping[str, str]) -> str:
        """Counts the next item, and returns its number or bullet with a space.

        A placeholder stands for a number that is not known yet; `with_numbers` replaces it."""
        if not self._open:
            return BULLET_MARK
        one, value = self._open[-1], _whole(attributes.get("value"))
        if value is not None:
            one.number, one.is_backwards = value, False
        number, kind = one.number, _kind(attributes, one.kind)
        one.number += one.step
        one.items += 1
        if not kind:
            return BULLET_MARK
        if one.is_backwards:
            self._later.append((one, number, kind))
            return f"\0{len(self._later) - 1}\0"
        return f"{written(number, kind)}. "

    def with_numbers(self, text: str) -> str:
        """Replaces the placeholders in a text with numbers; items of lists that did not end get bullets."""
        return COUNTED_LATER.sub(self._number, text) if self._later else text

    def _number(self, at: re.Match[str]) -> str:
        place = int(at[1])
        if place >= len(self._later):
            return ""
        one, number, kind = self._later[place]
        return f"{written(one.items + number, kind)}. " if one.is_over else BULLET_MARK


def _kind(attributes: Mapping[str, str], usual: str) -> str:
    """Returns the kind of an element's numbers, "" for bullets; `usual` if its attributes name no kind."""
    style = STYLE.search(attributes.get("style", ""))
    named = [*(style[1].lower().split() if style else ()), attributes.get("type", "")]
    return next((NAMED_KINDS[one] for one in named if one in NAMED_KINDS), usual)


def _whole(text: str | None) -> int | None:
    found = WHOLE.match(text or "")
    return int(found[1]) if found else None
