"""Makes text for display: titles from the beginning of a text, and numbers with nouns."""

import re
import unicodedata
from collections.abc import Iterator
from itertools import count

WIDTH = 48
"""Maximum number of columns of a title; a Chinese character takes two columns."""
SHORTEST = 10
"""Minimum number of columns of a sentence that is a title by itself; "Hi." is too short."""
TITLE_INPUT = 1_000
"""A title is made from this many characters at the beginning of a text, which may have a megabyte."""

FENCE = re.compile(r"^[^\S\n]*+(```|~~~).*$", re.MULTILINE)
LINE_MARKS = re.compile(r"^\s*(?:(?:[#>]+|[-*+•]|\d+[.)])\s+)+")
IMAGE_OR_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
EMPHASIS = re.compile(r"~~|`+|(?<!\w)[*_]{1,3}(?=\S)|(?<=\S)[*_]{1,3}(?!\w)")
SENTENCE_END = re.compile("[.!?…]+(?=\\s)|[。\uff01\uff1f]+")


def title_of(text: str) -> str:
    """Return a title: the first sentence of the first line with content, without Markdown, at most WIDTH columns.

    "## Hello **there**, how are you? I am fine." -> "Hello there, how are you?"

    An empty text gives "".
    """
    beginning = text.lstrip()[:TITLE_INPUT]
    lines = (_without_markdown(line) for line in FENCE.sub("", beginning).splitlines())
    first = next(filter(None, lines), " ".join(beginning.split()))
    return _cut(_first_sentence(first))


def numbered(name: str) -> Iterator[str]:
    """Yield a name and then the name with numbers, to find an unused one: Dinner, Dinner (2), Dinner (3), …"""
    return (f"{name} ({number})" if number > 1 else name for number in count(1))


def counted(count: int, noun: str, plural: str = "") -> str:
    """Return a number with its noun: "1 document", "2,000 documents", "2 guesses"."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def seconds_in_words(seconds: float) -> str:
    """Format a time: 84 ms, 1.2 s, 2 min 5 s."""
    if seconds >= 60:
        return f"{int(seconds / 60)} min {int(seconds % 60)} s"
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"


def columns(text: str) -> int:
    """Return the width of a text in columns: wide characters take two, combining characters none."""
    return sum(map(_width, text))


def _without_markdown(line: str) -> str:
    bare = EMPHASIS.sub("", IMAGE_OR_LINK.sub(r"\1", LINE_MARKS.sub("", line)))
    return " ".join("".join(c for c in bare if c.isprintable() or c.isspace()).split())


def _first_sentence(line: str) -> str:
    for end in SENTENCE_END.finditer(line):
        sentence = line[: end.end()]
        if columns(sentence) >= SHORTEST:
            return sentence.rstrip(".。")
    return line


def _cut(line: str) -> str:
    if columns(line) <= WIDTH:
        return line
    end = _fitting(line, WIDTH - 1)
    at_word = line.rfind(" ", 0, end + 1)
    # A word longer than half a title, or a text without spaces, is cut inside the word.
    return (line[:at_word] if at_word > end // 2 else line[:end]).rstrip(" ,;:-") + "…"


def _fitting(line: str, width: int) -> int:
    """Return how many characters fit into this width. No character is separated from its combining marks."""
    end = 0
    for at, character in enumerate(line):
        width -= _width(character)
        if width < 0:
            break
        end = at + 1
    while 0 < end < len(line) and (_width(line[end]) == 0 or line[end - 1] == "\u200d"):
        end -= 1
    return end


def _width(character: str) -> int:
    if unicodedata.combining(character) or character in "\u200d\ufe0f":
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
