"""A passage narrowed to what a question is about, where there is no room for all of it.

The sentence that has most of the question's words, each word counting less the more sentences have it, and then its
neighbours, the next before the last, as long as there is room:

    asked    What is the rent?      room for 50 characters
    text     A lease has two sides. The rent is 740 euros. It is due in May. Cats may stay.
    kept                            The rent is 740 euros. It is due in May.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from app.document_messages import Passage
from app.documents.search.sentences import sentences
from app.documents.search.words import folded, indexed, terms

PARAGRAPH = re.compile(r"\n\s*\n")
Span = tuple[int, int]


def focused(passage: Passage, question: str, most: int) -> Passage:
    """At most this many characters of the passage, around what the question asks for, with the place of those."""
    spans = _spans(passage.text)
    if len(passage.text) <= most or not spans:
        return passage
    first = last = _best(passage.text, spans, question)
    while last + 1 < len(spans) and spans[last + 1][1] - spans[first][0] <= most:
        last += 1
    while first and spans[last][1] - spans[first - 1][0] <= most:
        first -= 1
    begin = next(at for at in range(*spans[first]) if not passage.text[at].isspace())
    end = min(spans[last][1], begin + most)
    text = passage.text[begin:end].rstrip()
    return replace(passage, start=passage.start + begin, end=passage.start + begin + len(text), text=text)


def _spans(text: str) -> list[Span]:
    """The sentences of a text that say something; no sentence goes on behind an empty line."""
    borders = [0, *(found.end() for found in PARAGRAPH.finditer(text)), len(text)]
    spans = [
        (begin + start, begin + end)
        for begin, stop in pairwise(borders)
        for start, end in sentences(text[begin:stop])
    ]
    return [(begin, end) for begin, end in spans if text[begin:end].strip()]


def _best(text: str, spans: Sequence[Span], question: str) -> int:
    """Which sentence has most of what is asked for; the first of several."""
    asked = terms(question)
    said = [f" {folded(indexed(text[begin:end]))} " for begin, end in spans]
    has = [[term for term in asked if f" {term} " in words] for words in said]
    seen = Counter(term for found in has for term in found)
    weights = [sum(1 / seen[term] for term in found) for found in has]
    return weights.index(max(weights))
