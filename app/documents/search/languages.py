"""The language of a text, and the stems of its words."""

from functools import cache

from py3langid.langid import MODEL_FILE, LanguageIdentifier
from Stemmer import Stemmer

LANGUAGES = """
    ar bg ca cs da de el en es et eu fa fi fr ga he hi hu hy id it ja ko lt ne nl no pl pt ro ru sk sr sv ta th tr
    uk vi zh
"""
"""The languages that are distinguished. All except Thai have a Snowball stemmer or a list of stop words."""
MAX_IDENTIFIED = 5_000
"""Maximum number of characters, from the beginning of a text, by which its language is identified."""


def language_of(text: str) -> str:
    """Identifies the language of a text. Returns its ISO 639 code."""
    return str(_identifier().classify(text[:MAX_IDENTIFIED])[0])


def stem_of(word: str, language: str) -> str:
    """Returns the stem of a lower-case word; the word itself in a language without a stemmer."""
    try:
        return str(Stemmer(language, 0).stemWord(word))  # each thread needs a stemmer of its own
    except KeyError:
        return word


@cache
def _identifier() -> LanguageIdentifier:
    identifier = LanguageIdentifier.from_model_file(MODEL_FILE)  # takes a second
    identifier.set_languages(LANGUAGES.split())
    return identifier
