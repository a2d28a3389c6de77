"""Prepares text for the full-text index, for storage and for display.

FTS5's tokenizer treats a run of letters as a word, so spaces are put around each character of a script without
spaces: "FTS5 用于全文搜索" -> "FTS5  用  于  全  文  搜  索". A query searches for such characters as a phrase.
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
"""A character of a script without spaces, or of Korean; each is indexed as a word of its own."""
WIDE_WEIGHT = 3
"""Weight of a Chinese, Japanese or Korean character, which takes about as many tokens as three letters."""
WIDE = re.compile(
    "[\u1100-\u11ff\u2e80-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff]"
)
MOST_MARKS = 30
"""Maximum number of combining marks that a letter keeps: Unicode's stream-safe limit. No script needs more."""
_MANY_MARKS = re.compile(rb"[^\x00]{%d,}" % (MOST_MARKS + 1))

_SURROGATES = re.compile("[\ud800-\udfff]")

Form = Literal["NFC", "NFD", "NFKC", "NFKD"]

UNSHOWN = re.compile(
    "[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff"  # controls, line ends, bytes that are not UTF-8
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]"  # direction marks, which can show txt.exe as exe.txt
)
"""A character that a file's name may contain and that is not displayed."""


def weight_of(text: str) -> int:
    """Return the length of a text in letters; a wide character counts as WIDE_WEIGHT letters."""
    return len(text) if text.isascii() else len(text) + (WIDE_WEIGHT - 1) * len(WIDE.findall(text))


def shown_name(name: str) -> str:
    """Return a file's name for display and storage, with U+FFFD in place of each UNSHOWN character."""
    return UNSHOWN.sub("\N{REPLACEMENT CHARACTER}", name)


def name_key(name: str) -> str:
    """Return a key that is equal for names that differ only in case, extra spaces, Unicode form or invisible
    characters."""
    shown = " ".join(normalized("NFC", name).split())
    return "".join(filter(str.isprintable, shown)).casefold().strip()


def spaced(text: str) -> str:
    """Return a text for the index: in Unicode's form NFKC, with spaces around characters of unspaced scripts."""
    return UNSPACED.sub(r" \g<0> ", normalized("NFKC", storable(text)))


def normalized(form: Form, text: str) -> str:
    """Return a text in a Unicode form. Marks beyond MOST_MARKS on one letter are left out, because sorting them
    takes quadratic time."""
    if text.isascii():
        return text
    classes, kept, at = bytes(map(unicodedata.combining, text)), [], 0
    for run in _MANY_MARKS.finditer(classes):
        kept.append(text[at : run.start() + MOST_MARKS])
        at = run.end()
    return unicodedata.normalize(form, "".join([*kept, text[at:]]))


def storable(text: str) -> str:
    """Replace surrogates, which UTF-8 cannot encode, with question marks."""
    return text.encode("utf-8", "replace").decode("utf-8")


def without_surrogates(text: str) -> str:
    """Replace each surrogate (half a character, or a byte of another encoding) with U+FFFD."""
    return _SURROGATES.sub("\N{REPLACEMENT CHARACTER}", text)
