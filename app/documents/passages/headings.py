"""Lines that are headings, and the path of those that are in effect."""

import re
from dataclasses import dataclass

BETWEEN = " \u203a "
"""What stands between the headings of a path."""
WIDEST = 80
"""Characters of one heading in a path."""
MARKED_UP = 800
"""Characters of a heading's beginning, its marks included, of which those are taken."""
MARKED = re.compile(r" {0,3}(#{1,6})[ \t]++(\S.*)")
UNDERLINE = re.compile(r"(=+|-+|~+|\^+|\"+)\s*$")
UNDERLINE_LEVELS = {"=": 1, "-": 2, "~": 3, "^": 4, '"': 4}
LONGEST_TITLE = 120
NUMBERED = re.compile(
    r"\s*(?:(?:chapter|part|book|section|article|appendix|act|scene|kapitel|artikel|abschnitt|teil|chapitre)"
    r"\s+(?:\d+|[ivxlcdm]+)\b|\u00a7\s*\d+|\u7b2c\s*[\d\u4e00-\u9fff]{1,5}\s*[\u7ae0\u7bc0\u8282\u6761\u6b3e])"
    r".{0,80}$",
    re.IGNORECASE,
)
PAGE = re.compile(r"page (\d+)")
MARKS = re.compile(r"[*_`]+|\[([^\]]*)\]\([^)]*\)")


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading: 1 is the highest level."""

    level: int
    title: str


def across(first: str, last: str) -> str:
    """The path of what begins below one and ends below another: "page 1" and "page 2 > Eggs" -> "pages 1-2"."""
    begin, end = PAGE.match(first), PAGE.match(last)
    if not begin or not end or begin[1] == end[1]:
        return first
    return f"pages {begin[1]}-{end[1]}{first[begin.end() :]}"


def marked_heading(line: str) -> Heading | None:
    """A heading by its signs: "## Eggs" is one of level 2."""
    found = MARKED.match(line)
    if found is None:
        return None
    title = found[2].rstrip()
    return Heading(len(found[1]), title.rstrip("#").rstrip(" \t") or title[0])


def underlined_heading(line: str, below: str) -> Heading | None:
    """A heading by the line below: "Eggs" above "====" is one of level 1."""
    found = UNDERLINE.match(below)
    title = line.strip()
    if not found or not title or len(found[1]) < max(3, min(len(title), LONGEST_TITLE) - 2):
        return None
    return Heading(UNDERLINE_LEVELS[found[1][0]], title) if len(title) <= LONGEST_TITLE else None


def numbered_heading(line: str) -> Heading | None:
    """A heading by its words: "CHAPTER IV. The Rabbit". To be asked of lines that stand alone."""
    return Heading(2, line.strip()) if NUMBERED.match(line) else None


class HeadingPath:
    """The headings above the line that is looked at."""

    def __init__(self, page: int = 0) -> None:
        """`page` is the first page's number in a text that has page breaks, 0 where that is not known."""
        self._headings: list[Heading] = []
        self._page = page
        self.text = ""
        self._join()

    def enter(self, heading: Heading) -> None:
        """Go below a heading; those of its level and deeper are over."""
        self._headings = [one for one in self._headings if one.level < heading.level] + [heading]
        self._join()

    def turn_page(self) -> None:
        """Go to the next page."""
        self._page = (self._page or 1) + 1
        self._join()

    def _join(self) -> None:
        page = [f"page {self._page}"] if self._page else []
        titles = (_plain(one.title[:MARKED_UP])[:WIDEST].strip() for one in self._headings)
        self.text = BETWEEN.join([*page, *filter(None, titles)])


def _plain(title: str) -> str:
    return " ".join(MARKS.sub(r"\1", title).split())
