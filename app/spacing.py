"""Scripts that write no spaces, for indexes that take a run of letters for one word.

FTS5's unicode61 would give such a script one word a sentence, so each of its characters is set apart:

    "FTS5 用于全文搜索"   ->  "FTS5  用  于  全  文  搜  索"

in the index and in what is asked, where a phrase puts them together again.
"""

import re
import unicodedata
from typing import Literal

UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao, Burmese, Khmer
    "\u2e80-\u2fdf\u3005-\u3007\u3041-\u30ff\u31f0-\u31ff"  # radicals, kana
    "\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3\uf900-\ufaff"  # ideographs, Hangul
    "\U00020000-\U0003ffff]"
)
"""A character that is a word of its own."""
MOST_MARKS = 30
"""Combining marks of a letter that count: no script has more, and so Unicode's own stream-safe format has it."""
_MANY_MARKS = re.compile(rb"[^\x00]{%d,}" % (MOST_MARKS + 1))

Form = Literal["NFC", "NFD", "NFKC", "NFKD"]


UNSHOWN = re.compile(
    "[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff"  # controls, line ends, bytes that are no UTF-8
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]"  # what turns the direction: exe.txt may be named txt.exe
)
"""A character that a file's name may have and nobody should be shown."""


def shown_name(name: str) -> str:
    """A file's name as it can be shown everywhere and stored: one line that reads as it stands."""
    return UNSHOWN.sub("\N{REPLACEMENT CHARACTER}", name)


def spaced(text: str) -> str:
    """A text with each such character set apart, and one form for each character."""
    return UNSPACED.sub(r" \g<0> ", normalized("NFKC", storable(text)))


def normalized(form: Form, text: str) -> str:
    """A text in one of Unicode's forms. Marks are sorted for that, which takes the square of how many stand on a
    letter: those that nobody can read are left out."""
    if text.isascii():
        return text
    classes, kept, at = bytes(map(unicodedata.combining, text)), [], 0
    for run in _MANY_MARKS.finditer(classes):
        kept.append(text[at : run.start() + MOST_MARKS])
        at = run.end()
    return unicodedata.normalize(form, "".join([*kept, text[at:]]))


def storable(text: str) -> str:
    """A text without halves of characters, which no file can keep."""
    return text.encode("utf-8", "replace").decode("utf-8")
