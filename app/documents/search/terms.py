"""The words of a passage that are indexed, and the words of a question that are searched.

    indexed     parseHTTPDate of app.dates  ->  "parsehttpd pars http date of app date"
    searched    What is os.path?            ->  "what", "is", "os path", "os", "path"

The index holds stems in the language of the text, without case and accents. Scripts without spaces are searched by
pairs of characters, but Thai, Lao, Burmese and Khmer by groups of three."""

import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import islice

import regex
from stop_words import safe_get_stop_words

from app.documents.search.languages import stem_of
from app.values.text_normalisation import UNSPACED, normalized, storable

CAMEL = regex.compile(r"(?<=[a-z\d])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
"""The positions between the parts of an identifier: parse|HTTP|Date."""
INVISIBLE = regex.compile(r"\p{Cf}+")
LETTERS = r"[\p{L}\p{N}\p{M}][\p{L}\p{N}\p{M}\p{Cf}]*+"
NAMED = (
    rf"(?:{LETTERS}(?:\+\+(?!\+)|[+#](?![\p{{L}}\p{{N}}+#]))?+"
    rf"|(?<![^\s(\[\"'/\u201c\u201e])\.(?=\p{{L}}){LETTERS})"
)
"""A word, or a name with a sign: C++, F#, .NET."""
PIECE = regex.compile(NAMED)
WORD = regex.compile(rf"{NAMED}(?:[.\-/:&_]++{NAMED})*+")
"""A word of a question, including signs within an identifier, a number or a date."""
RUN = regex.compile(f"(?:{UNSPACED.pattern})++")
SYLLABLES = regex.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]")
"""A character of Thai, Lao, Burmese or Khmer, which write a syllable with several characters."""
CONTRACTED = regex.compile(r"(?<=\w)['\u2019](?:s|t|re|ve|ll|d|m)\b", regex.IGNORECASE)
"""Contracted endings, as in isn't, what's and they're. Most such words are stop words without the ending."""
MAX_TERMS = 128
"""Maximum number of terms, from the beginning of a question, that are searched."""

ENGLISH_LIST = """
    a an and are as at be been by can could do does did for from has have how i if in into is it its me my of on or
    our should that the their them then there these they this to was we were what when where which who whom whose
    why will with would you your
"""
ASKING_LIST = """
    about cite cited document documents mention mentioned mentions passage passages quote said say says sentence
    sentences source sources dokument dokumente dokumenten erwähnt quelle quellen sagen sagt satz steht über zitiere
"""
ASKING = frozenset(ASKING_LIST.split())
"""Words by which a question only asks to look in the documents. They do not name its topic."""
STOP_WORDS = frozenset(ENGLISH_LIST.split())
"""English words that any question may have."""


@dataclass(frozen=True, slots=True)
class Term:
    """A word of a question, with its FTS5 phrases in the languages of the documents.

    `is_common` is true for a word that says little about the topic, such as a stop word. `is_pair` is true for two
    neighbouring characters of a text without spaces, which may belong to two words."""

    phrases: tuple[str, ...]
    is_common: bool = False
    is_pair: bool = False


def indexed(text: str, language: str = "") -> str:
    """Returns the words of a text as they are indexed, separated by spaces."""
    plain = _plain(text)
    words: list[str] = PIECE.findall(plain if plain.isascii() else UNSPACED.sub(r" \g<0> ", plain))
    return " ".join(filter(None, (_indexed_word(word, language) for word in words)))


def asked(question: str, languages: Sequence[str]) -> list[Term]:
    """Returns the first MAX_TERMS words of a question, as often as they occur, for texts in these languages."""
    common = frozenset[str]().union(*map(_stop_words, languages))
    found = list[Term]()
    for group in islice(_groups(question), MAX_TERMS):
        plain, *phrases = (_phrase(group, language) for language in ("", *languages))
        if plain:
            is_pair = len(group) == 2 and RUN.fullmatch("".join(group)) is not None
            found.append(Term(tuple(dict.fromkeys(phrases)), plain in common, is_pair))
    return found


def terms(question: str, language: str = "") -> tuple[str, ...]:
    """Returns the words of a question as they are indexed, each once. Stop words are left out if others remain."""
    found = asked(question, [language])
    kept = [term for term in found if not term.is_common] or found
    return tuple(dict.fromkeys(term.phrases[0] for term in kept))


def content_words(question: str) -> tuple[str, ...]:
    """Returns the words of a question as they are written, each once, without English stop words."""
    words = dict.fromkeys(_words(question))
    return tuple(word for word in words if word.lower() not in STOP_WORDS)


def any_of(phrases: Iterable[str]) -> str:
    """Makes an FTS5 query for passages with any of these phrases."""
    return " OR ".join(f'"{phrase}"' for phrase in phrases)


def _plain(text: str) -> str:
    return str(INVISIBLE.sub("", normalized("NFKC", storable(text))))


def _phrase(words: Iterable[str], language: str) -> str:
    return " ".join(filter(None, (_token(word, language) for word in words)))


@lru_cache(maxsize=20_000)
def _indexed_word(word: str, language: str) -> str:
    return _phrase(_parts(word), language)


@lru_cache(maxsize=20_000)
def _token(word: str, language: str) -> str:
    stem = stem_of(word.lower(), language)
    if stem.isascii():
        return stem
    letters = (one for one in normalized("NFD", INVISIBLE.sub("", stem)) if not _is_accent(one))
    return normalized("NFC", "".join(letters))


def _is_accent(character: str) -> bool:
    """Returns whether a mark may be left out: accents and the vowels of Arabic and Hebrew, but not of Hindi."""
    combining_class = unicodedata.combining(character)
    return 10 <= combining_class <= 36 or combining_class >= 200


@cache
def _stop_words(language: str) -> frozenset[str]:
    """Returns the words, without accents, that say little in a question about a text of this language."""
    listed = " ".join(safe_get_stop_words(language))
    return STOP_WORDS | ASKING | frozenset(indexed(listed).split())


def _groups(question: str) -> Iterator[list[str]]:
    """Yields the phrases by which a question is searched, each as a list of words."""
    for word in _words(question):
        if RUN.fullmatch(word):
            size = 3 if SYLLABLES.match(word) else 2
            yield from ([*word[at : at + size]] for at in range(max(1, len(word) - size + 1)))
            continue
        pieces = PIECE.findall(word)
        if len(pieces) > 1:
            yield pieces
        yield from ([part] for piece in pieces for part in _parts(piece))


def _words(question: str) -> Iterator[str]:
    text = CONTRACTED.sub("", _plain(question))
    yield from WORD.findall(RUN.sub(" ", text))
    yield from RUN.findall(text)


def _parts(word: str) -> list[str]:
    bare = word.strip("+#.")
    if bare != word:
        return [word, *_parts(bare)] if len(bare) > 1 else [word]
    parts = [] if word.islower() else CAMEL.split(word)
    return [word, *parts] if len(parts) > 1 else [word]
