"""Whether what an answer says before a [n] has anything in common with source n.

    [1] The rent is 740 euros.    [2] Pets are welcome.
    "The rent is 740 euros [2]."  unsupported: no word of it is in source 2

A word counts less the more sources have it: those of one question share its subject. What is said without words of
its own ("Yes [1].") is not judged. Thresholds and how well they tell right from wrong: docs/notes.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from app.conversation.thinking import split_thought
from app.documents.search.snippets import sentences
from app.documents.search.terms import STOP_WORDS, folded, indexed, terms
from app.values.chat import MessageContent
from app.values.document import Sources

MARKER = re.compile(r"\[(\d{1,3})\]")
LEADING = re.compile(r"(?:\s*\[\d{1,3}\][,;.]?)+\s*")
NO_TEXT = re.compile(
    r"```.*?(?:```|\Z)|`[^`\n]*`|\$(?=\S)[^$\n]*(?<=\S)\$(?!\d)|\[\d{1,3}\]\(|^\[\d{1,3}\]:[ \t]*\S+$",
    re.DOTALL | re.MULTILINE,
)
"""Code, formulas and links: what looks like a marker there is none."""
FEWEST_WORDS = 3
"""Words that a part of a sentence must have to be judged without the rest of it; stop words do not count."""
FEWEST_JUDGED = 2
"""Words that a claim must have to be judged at all: "Yes [1]." says nothing that could be looked up."""
SUPPORTED = 0.25
"""Share of a claim's words from which on its source supports it."""
SIMILAR = 0.2
"""Cosine from which on a source supports a claim in other words, if no other source is nearer."""
Similarities = Callable[[Sequence[str], Sequence[str]], Sequence[Sequence[float]]]
"""The cosines of each claim with each source; none if there is no embedding model."""


@dataclass(frozen=True, slots=True)
class Claim:
    """What an answer says before one of its markers; "" if that cannot be told."""

    number: int
    text: str


def claims(answer: str) -> list[Claim]:
    """Finds the claim before each marker of an answer, in order."""
    plain, found = NO_TEXT.sub(lambda found: " " * len(found[0]), answer), list[Claim]()
    for line in plain.split("\n"):
        for sentence in _with_markers(line[begin:end] for begin, end in sentences(line)):
            whole, begin = _words(sentence), 0
            for marker in MARKER.finditer(sentence):
                since = _words(sentence[begin : marker.start()])
                found.append(Claim(int(marker[1]), since if len(_content(since)) >= FEWEST_WORDS else whole))
                begin = marker.end()
    return found


def _with_markers(sentences: Iterator[str]) -> Iterator[str]:
    """Yields sentences with their markers: one after the full stop belongs to the sentence before it."""
    before = ""
    for sentence in sentences:
        leading = LEADING.match(sentence)
        if before and leading and not MARKER.search(before):
            before, sentence = before + leading[0], sentence[leading.end() :]
        yield before
        before = sentence
    yield before


def _words(text: str) -> str:
    return MARKER.sub(" ", text).strip()


def unsupported(answer: str, sources: Sequence[str], similarities: Similarities) -> tuple[int, ...]:
    """Finds the markers, counted from 0, that cite a source which does not support the claim."""
    judged = [one for one in enumerate(claims(answer)) if 1 <= one[1].number <= len(sources)]
    doubted = [(place, claim) for place, claim in judged if support(claim, sources) < SUPPORTED]
    cosines = similarities([claim.text for _, claim in doubted], sources) if doubted else ()
    pairs = zip(doubted, cosines, strict=False)
    similar = {place for (place, claim), row in pairs if nearness(claim, row) >= SIMILAR}
    return tuple(place for place, _ in doubted if place not in similar)


def nearness(claim: Claim, cosines: Sequence[float]) -> float:
    """The cosine of a claim and its source; 0 if another source is nearer."""
    own = cosines[claim.number - 1]
    return own if own >= max(cosines) else 0.0


def support(claim: Claim, sources: Sequence[str]) -> float:
    """The share of a claim's words that its source has, from 0 to 1; words that more sources have count less."""
    wanted, texts = _content(claim.text), [_words_of(source) for source in sources]
    if len(wanted) < FEWEST_JUDGED:
        return 1.0
    # Terms of several words are looked up in the whole text.
    having = {
        term: [f" {term} " in plain if " " in term else term in words for plain, words in texts]
        for term in wanted
    }
    weights = {term: 1 / max(1, sum(found)) for term, found in having.items()}
    shared = sum(weights[term] for term, found in having.items() if found[claim.number - 1])
    return shared / sum(weights.values())


@lru_cache(maxsize=64)
def _content(text: str) -> tuple[str, ...]:
    """The words of a text as they are indexed, without stop words."""
    return tuple(word for term in terms(text) if term not in STOP_WORDS and (word := folded(term)))


@lru_cache(maxsize=32)
def _words_of(source: str) -> tuple[str, frozenset[str]]:
    plain = folded(indexed(source))
    return f" {plain} ", frozenset(plain.split())


def checked(content: MessageContent, sources: Sequence[str], similarities: Similarities) -> MessageContent:
    """A reply that has ended, with the citations noted that their sources do not support."""
    if content.state == "writing" or content.sources is None:
        return content
    return replace(content, sources=checked_sources(content.sources, content.text, sources, similarities))


def checked_sources(cited: Sources, text: str, sources: Sequence[str], similarities: Similarities) -> Sources:
    """A reply's sources with the citations noted that these texts of them do not support."""
    return replace(cited, unsupported=unsupported(split_thought(text).answer, sources, similarities))
