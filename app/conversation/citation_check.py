"""Checks whether source n supports the text before a marker [n] in an answer.

    [1] The rent is 740 euros.    [2] Pets are welcome.
    "The rent is 740 euros [2]."  unsupported: no word of it is in source 2
    "The rent is 750 euros [1]."  unsupported: 750 is not in source 1

Names in German texts are not compared, because each German noun has a capital. docs/notes/2026-11-retrieval.md has
the thresholds, and how well they separate right citations from wrong ones."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from app.conversation.thought_parsing import split_thought
from app.documents.search.snippets import ABBREVIATIONS, sentences
from app.documents.search.terms import STOP_WORDS, indexed, terms
from app.values.chat import MessageContent
from app.values.document import Sources

MARKER = re.compile(r"\[(\d{1,3})\]")
LEADING = re.compile(r"(?:\s*\[\d{1,3}\][,;.]?)+\s*")
NO_TEXT = re.compile(
    r"```.*?(?:```|\Z)|`[^`\n]*`|\$(?=\S)[^$\n]*(?<=\S)\$(?!\d)|\[\d{1,3}\]\(|^\[\d{1,3}\]:[ \t]*\S+$",
    re.DOTALL | re.MULTILINE,
)
"""Code, formulas and links, in which [n] is not a marker."""
FEWEST_WORDS = 3
"""A marker's claim is the text before it, from the previous marker or from the sentence's beginning, if this text
has at least this many words, stop words not counted; otherwise the claim is the whole sentence."""
FEWEST_JUDGED = 2
"""The words of a claim are judged only if there are at least this many: "Yes [1]." has nothing to look up."""
SUPPORTED = 0.25
"""A source with at least this share of a claim's words, by weight, supports the claim unless a fact is missing."""
SIMILAR = 0.2
"""A source with fewer of the claim's words supports the claim, too, if the similarity of both texts is at least
this and no other source is nearer."""
_THOUSANDS = re.compile(r"(?<=\d)[.,\u2019'\u00a0\u202f](?=\d{3}(?!\d))")
_NAME = re.compile(r"(?<=[a-z\d,;)\u00c0-\u024f] )[A-Z\u00c0-\u00de][\w-]+")
_LABEL = re.compile(r"^\s*(?:[-*+]\s+)?(?:\d+[.)]\s+)?(?:\*\*[^*]{1,60}\*\*:?)?")
"""The beginning of a line in a list: a bullet, a number, a bold label, or several of them."""
_REFERENCE = re.compile(r"\b(?:source|document|passage|text)s? \d+\b", re.IGNORECASE)
"""The name of a source by its number, as in "according to source 1"."""
_GERMAN = re.compile(r"\b(?:der|die|das|dem|den|und|ist|ein|eine|nicht|von|f\u00fcr|mit)\b", re.IGNORECASE)
MONTHS = (
    "january february march april may june july august september october november december".split()  # noqa: SIM905
)
_UNITS = (
    ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"),
    ("zeroth", "first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth"),
)
_TEENS = (
    "ten", "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen",
)  # fmt: skip
_TENS = enumerate(("twent", "thirt", "fort", "fift", "sixt", "sevent", "eight", "ninet"), 2)
SPELLED = {
    **{word: number for words in _UNITS for number, word in enumerate(words)},
    **{word: number for number, teen in enumerate(_TEENS, 10) for word in (teen, f"{teen}th")},
    **{
        word: 10 * ten + unit
        for ten, stem in _TENS
        for words in _UNITS
        for unit, one in enumerate(words)
        for word in ((f"{stem}y-{one}",) if unit else (f"{stem}y", f"{stem}ieth"))
    },
    "twelfth": 12,
    "dozen": 12,
}
"""Numbers below a hundred, by their English words."""
COMMON = frozenset(("zero", "one", "two", "first", "second"))
"""Number words that are not looked up, because answers also use them in other senses, as in "the two sources"."""
SCALES = {"thousand": 3, "k": 3, "million": 6, "m": 6, "billion": 9}
"""The power of ten that a word or letter after a number means."""
_NUMBER = re.compile(
    rf"(\d+(?:[.,:/\u2019'-]\d+)*|\b(?:{'|'.join(sorted(SPELLED, key=len, reverse=True))})\b)"
    r"(?:\s?(thousand|million|billion)\b|((?-i:[MKk]))\b|\s?([ap])\.?m\b)?",
    re.IGNORECASE,
)
"""A number in digits, with the scale (million, k) or the am or pm after it, if there is one."""
ABOUT_SOURCES = frozenset(
    ("source", "sources", "document", "documents", "passage", "passages", "text", "question", "answer", "context",
     "section", "note", "yes", "no", "json")
)  # fmt: skip
"""Words that answers may write with a capital letter although they are not names."""
STEM = 4
"""Minimum number of first letters that two forms of a name have in common: Berlin, Berliner."""
Similarities = Callable[[Sequence[str], Sequence[str]], Sequence[Sequence[float]]]
"""Computes the similarity of each claim to each source (app/documents/hybrid_search.py). Returns () if no embedding
model answers in time."""


@dataclass(frozen=True, slots=True)
class Claim:
    """The number of a marker [n], and the text before the marker, which source n should support."""

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


def claim_at(reply: str, place: int) -> str:
    """Returns the claim before the marker with this index (from 0) in a reply; "" if there is none."""
    found = claims(split_thought(reply).answer)
    return found[place].text if 0 <= place < len(found) else ""


def _with_markers(sentences: Iterator[str]) -> Iterator[str]:
    """Yields the sentences. Markers at a sentence's beginning move to the previous one if that has no marker."""
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


def unsupported(answer: str, sources: Sequence[str], similarities: Similarities) -> dict[int, str]:
    """Returns the indices (from 0) of the markers whose source does not support the claim before the marker.

    Each index maps to the numbers, dates and names that the source lacks, or to "" if the source has too few of
    the claim's words."""
    judged = [one for one in enumerate(claims(answer)) if 1 <= one[1].number <= len(sources)]
    doubted = [(index, claim) for index, claim in judged if support(claim, sources) < SUPPORTED]
    cosines = similarities([claim.text for _, claim in doubted], sources) if doubted else ()
    pairs = zip(doubted, cosines, strict=False)
    similar = {index for (index, claim), row in pairs if nearness(claim, row) >= SIMILAR}
    found = {index: "" for index, _ in doubted if index not in similar}
    for index, claim in judged:
        # A claim with several markers may combine facts from all their sources.
        together = " ".join(
            sources[one.number - 1] for _, one in judged if _content(one.text) == _content(claim.text)
        )
        if index not in found and (missing := missing_facts(claim.text, together)):
            found[index] = ", ".join(missing)
    return dict(sorted(found.items()))


def nearness(claim: Claim, cosines: Sequence[float]) -> float:
    """Returns the cosine of a claim and its source; 0 if another source is nearer."""
    own = cosines[claim.number - 1]
    return own if own >= max(cosines) else 0.0


def support(claim: Claim, sources: Sequence[str]) -> float:
    """Returns the share of a claim's words that its source has, from 0 to 1.

    A word counts less the more sources have it. A claim that is too short to judge counts as supported (1)."""
    wanted, texts = _content(claim.text), [_words_of(source) for source in sources]
    if len(wanted) < FEWEST_JUDGED:
        return 1.0
    # A term of several words is looked up in the whole text, a single word in the set of words.
    having = {
        term: [f" {term} " in plain if " " in term else term in words for plain, words in texts]
        for term in wanted
    }
    weights = {term: 1 / max(1, sum(found)) for term, found in having.items()}
    shared = sum(weights[term] for term, found in having.items() if found[claim.number - 1])
    return shared / sum(weights.values())


@lru_cache(maxsize=64)
def _content(text: str) -> tuple[str, ...]:
    """Returns the words of a text as the full-text index stores them, without stop words."""
    return tuple(term for term in terms(text) if term not in STOP_WORDS)


@lru_cache(maxsize=32)
def _words_of(source: str) -> tuple[str, frozenset[str]]:
    plain = indexed(source)
    return f" {plain} ", frozenset(plain.split())


def checked(content: MessageContent, sources: Sequence[str], similarities: Similarities) -> MessageContent:
    """Returns a reply with its unsupported citations noted.

    A reply that is still being written, or has no sources, is returned unchanged."""
    if content.state == "writing" or content.sources is None:
        return content
    return replace(content, sources=checked_sources(content.sources, content.text, sources, similarities))


def checked_sources(cited: Sources, text: str, sources: Sequence[str], similarities: Similarities) -> Sources:
    """Returns `cited` with the unsupported markers of the reply `text`; `sources` are the texts of the sources."""
    found = unsupported(split_thought(text).answer, sources, similarities)
    return replace(cited, unsupported=tuple(found), missing=tuple(found.values()))


def missing_facts(sentence: str, source: str) -> tuple[str, ...]:
    """Return the numbers, dates and names of a sentence that its source does not have, each once."""
    facts, text = _facts_of(source), _REFERENCE.sub("", _LABEL.sub("", sentence))
    missing = [found[0] for found in _NUMBER.finditer(text) if not facts.has_number(found)]
    missing += [name for name in _names(text) if not facts.has_name(name)]
    return tuple(dict.fromkeys(missing))


def _names(text: str) -> Iterator[str]:
    if not _GERMAN.search(text):
        ignored = STOP_WORDS | ABBREVIATIONS | ABOUT_SOURCES
        yield from (name for name in _NAME.findall(text) if name.lower() not in ignored | SPELLED.keys())


class _Facts:
    """The numbers of a source in all forms, its words, and the initials of its capitalised words."""

    def __init__(self, source: str) -> None:
        found = list(_NUMBER.finditer(source))
        parts = {
            part for each in found if len(_parts(each[1])) == 3 or "-" in each[1] for part in _parts(each[1])
        }
        self._digits = parts.union(_plain(each[1]) for each in found if each[1][0].isdigit())
        self._numbers = self._digits.union(*map(_forms, found))
        self._words = tuple(sorted(set(indexed(source).split())))
        self._initials = "".join(word[0] for word in re.findall(r"\b[A-Z]\w+", source))

    def has_number(self, number: re.Match[str]) -> bool:
        if number[0].lower() in COMMON or not self._numbers.isdisjoint(_forms(number)):
            return True
        parts = _parts(number[1])
        # A date may be written in another order, or with the month's name.
        named = {str(place) for place, month in enumerate(MONTHS, 1) if month in self._words}
        return len(parts) == 3 and all(part in self._numbers or part in named for part in parts)

    def has_name(self, name: str) -> bool:
        """Return whether the source has the name or a form of the name.

        A month may be a number in the source. An abbreviation may be the initials of words."""
        if name.lower() in MONTHS and str(MONTHS.index(name.lower()) + 1) in self._digits:
            return True
        if name.isupper() and (name in self._initials or (name[:-1] in self._initials and len(name) > 2)):
            return True  # the last letter may stand for no word, as in USA for the United States
        stems = [part[: max(STEM, len(part) - 2)] for part in indexed(name).split()]
        return all(any(word.startswith(stem) for word in self._words) for stem in stems)


_facts_of = lru_cache(maxsize=32)(_Facts)


def _forms(number: re.Match[str]) -> set[str]:
    """Return the number as it is compared: 1.500 and 1,500 as 1500, 2.5 million as 2500000, 7:15 pm as 7.15 and
    19.15."""
    plain, (_, scale, letter, half) = _plain(number[1]), number.groups()
    if power := SCALES.get((scale or letter or "").lower()):
        whole, _, rest = plain.partition(".")
        return {f"{whole}{rest.ljust(power, '0')[:power]}"}
    hour, _, minute = plain.partition(".")
    hours = {hour, str(int(hour) + 12)} if half in ("p", "P") and hour.isdigit() else {hour}
    forms = {f"{one}.{minute}" if minute else one for one in hours}
    is_clock = half or ":" in number[1]
    return (
        forms
        | {form.removesuffix(".0") for form in forms}
        | {f"{one}.0" for one in hours if is_clock and not minute}
    )


def _plain(number: str) -> str:
    spelled = SPELLED.get(number.lower())
    return ".".join(_parts(_THOUSANDS.sub("", number))) if spelled is None else str(spelled)


def _parts(number: str) -> list[str]:
    return [part.lstrip("0") or "0" for part in re.split(r"\D", number)] if number[0].isdigit() else [number]
