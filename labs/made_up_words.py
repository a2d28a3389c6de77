"""Makes words for large texts. As in a language, a few words are frequent and most are rare (Zipf's law)."""

from random import Random

VOCABULARY = 30_000


def made_up_word(source: Random) -> str:
    """Draw a rank and return its word: 0 is "ba", 1 "be", …; rare words are longer."""
    rank = min(int(source.paretovariate(0.6)) - 1, VOCABULARY)
    letters = ""
    while rank or not letters:
        rank, rest = divmod(rank, 25)
        letters += "bcdfg"[rest // 5] + "aeiou"[rest % 5]
    return letters
