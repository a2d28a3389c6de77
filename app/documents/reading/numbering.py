"""Finds the automatic numbers of a Word document's paragraphs, which are not in their text.

level 1 of list 3, whose text is "%1.%2", below the second paragraph of level 0    ->  "2.1"
"""

from collections.abc import Mapping

from docx.oxml.ns import nsmap
from docx.oxml.xmlchemy import BaseOxmlElement as Element

from app.documents.reading.lists import Level, NumberedList

WORD = f"{{{nsmap['w']}}}"
MAX_BASED = 10
"""Maximum length of a chain of styles, each of which is based on the next."""
NUMBER, LEVEL = "pPr/numPr/numId", "pPr/numPr/ilvl"


def value(element: Element, path: str) -> str:
    """Returns the value of the element at this path, such as "pPr/pStyle"; "" without it."""
    found = element.find("/".join(WORD + name for name in path.split("/")))
    return "" if found is None else str(found.get(f"{WORD}val", ""))


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
        self._lists: dict[str, NumberedList] = {}

    def label(self, paragraph: Element) -> str:
        """Counts the next paragraph, and returns its number or BULLET; "" if the paragraph is in no list."""
        number, place, style = self._place(paragraph)
        if number not in self._defined:
            return ""
        one = self._lists.get(number) or self._lists.setdefault(number, self._read(number))
        place = place if place >= 0 else one.styles.get(style, 0)
        return one.next_label(place)

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

    def _read(self, number: str) -> NumberedList:
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
        found = {_whole(one.get(f"{WORD}ilvl")): _level(one) for one in levels}
        return NumberedList(found, counts, begins, places)


def _level(element: Element) -> Level:
    kind, restart = value(element, "numFmt"), value(element, "lvlRestart") or element.get(f"{WORD}ilvl")
    text = "" if kind == "none" else value(element, "lvlText").strip()
    is_legal = element.find(f"{WORD}isLgl") is not None
    return Level(_whole(value(element, "start")), kind, text, _whole(restart), is_legal)


def _whole(text: str | None) -> int:
    return int(text) if text and text.isdecimal() else 0
