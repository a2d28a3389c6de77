"""Finds the numbers, dates and names of a sentence that its source does not have.

    source    The gate opens at 7.30 on 5 May 2024, says Anna Berg.
    sentence  Anna Berg says that it opens at 7:15.                    missing: 7:15

Leading zeros and the kind of separator do not matter when numbers are compared, and a month's name is equal to its
number. A name is a capitalised word that does not begin the sentence. In German all nouns are capitalised, so in
German sentences only numbers and dates are compared.
"""

import re
from collections.abc import Iterator
from functools import lru_cache

from app.documents.search.snippets import ABBREVIATIONS
from app.documents.search.terms import STOP_WORDS, indexed

_NUMBER = re.compile(r"\d+(?:[.,:/\u2019'-]\d+)*")
_THOUSANDS = re.compile(r"(?<=\d)[.,\u2019'\u00a0\u202f](?=\d{3}(?!\d))")
_NAME = re.compile(r"(?<=[a-z\d,;)\u00c0-\u024f] )[A-Z\u00c0-\u00de][\w-]+")
_LIST_NUMBER = re.compile(r"^\s*(?:[-*+]\s+)?(?:\d+[.)]\s+)?")
_GERMAN = re.compile(r"\b(?:der|die|das|dem|den|und|ist|ein|eine|nicht|von|f\u00fcr|mit)\b", re.IGNORECASE)
MONTHS = (
    "january february march april may june july august september october november december".split()  # noqa: SIM905
)
WORDS = "zero one two three four five six seven eight nine ten eleven twelve".split()  # noqa: SIM905
ORDINALS = "zeroth first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth".split()  # noqa: SIM905
STEM = 4
"""Minimum number of first letters that two forms of a name have in common: Berlin, Berliner."""


def missing_facts(sentence: str, source: str) -> tuple[str, ...]:
    """Return the numbers, dates and names of a sentence that its source does not have, each once."""
    numbers, words = _facts_of(source)
    text = _LIST_NUMBER.sub("", sentence)
    missing = [found for found in _NUMBER.findall(text) if not _has_number(found, numbers, words)]
    missing += [name for name in _names(text) if not _has_name(name, numbers, words)]
    return tuple(dict.fromkeys(missing))


def _names(text: str) -> Iterator[str]:
    if not _GERMAN.search(text):
        yield from (name for name in _NAME.findall(text) if name.lower() not in STOP_WORDS | ABBREVIATIONS)


@lru_cache(maxsize=32)
def _facts_of(source: str) -> tuple[frozenset[str], tuple[str, ...]]:
    """Return the numbers of a source, whole and in parts, and its words."""
    found = _NUMBER.findall(source)
    parts = {part for number in found if len(_parts(number)) == 3 or "-" in number for part in _parts(number)}
    return frozenset(parts | set(map(_plain, found))), tuple(sorted(set(indexed(source).split())))


def _plain(number: str) -> str:
    return ".".join(_parts(_THOUSANDS.sub("", number)))


def _parts(number: str) -> list[str]:
    return [part.lstrip("0") or "0" for part in re.split(r"\D", number)]


def _has_number(number: str, numbers: frozenset[str], words: tuple[str, ...]) -> bool:
    if (plain := _plain(number)) in numbers or plain.removesuffix(".0") in numbers:
        return True
    parts = _parts(number)
    if len(parts) == 3:  # a date, which may be written in another order, or with the month's name
        named = {str(place) for place, month in enumerate(MONTHS, 1) if month in words}
        return all(part in numbers or part in named for part in parts)
    is_small = plain.isdigit() and int(plain) < len(WORDS)
    return is_small and (WORDS[int(plain)] in words or ORDINALS[int(plain)] in words)


def _has_name(name: str, numbers: frozenset[str], words: tuple[str, ...]) -> bool:
    if name.lower() in MONTHS and str(MONTHS.index(name.lower()) + 1) in numbers:
        return True
    stems = [part[: max(STEM, len(part) - 2)] for part in indexed(name).split()]
    return all(any(word.startswith(stem) for word in words) for stem in stems)
