"""Questions that lean on the ones before them, made to stand alone before a search. No model is asked.

    What is the Caucus-race of the Dodo?
    Who won it?                             ->  Who won it? (Caucus-race Dodo)

A question leans when it says little and points back (it, they, that one) or goes on (And …, What about …), or when
it says next to nothing. Then it is searched with the telling words of the question before, which is made to stand
alone in the same way.
"""

import re
from collections.abc import Sequence

from app.documents.search.terms import telling_words

LOOKED_BACK = 3
"""Questions before this one that may be leaned on."""
MOST_WORDS = 8
"""Words that are taken from before."""
FEW_WORDS = 1
"""A question with so few telling words says almost nothing by itself."""
POINTING = """
    it its they them their theirs he him his she her hers this that these those one ones there then same other
    another former latter such both either neither
    es sie er ihn ihm ihr ihre sein seine dies dieser diese dieses davon dazu dort
    il elle ils elles lui leur celui celle cela ello ella ellos ellas esto eso esta ese
"""
"""Words that point at something said before: English, German, French and Spanish."""
SELF_SUFFICIENT = 4
"""A question with more telling words has what its pronouns point at within itself."""
BACKWARDS = frozenset(POINTING.split())
ONWARDS = re.compile(
    r"\s*(?:and|or|but|also|so|then|else|(?:what|how) about|what (?:if|else)|und|oder|aber|et|ou|mais|y|o|pero)"
    r"\b",
    re.IGNORECASE,
)
"""How a question begins that goes on from the one before."""
POINTED = re.compile(r"\w+")


def self_contained(question: str, earlier: Sequence[str]) -> str:
    """A question with the words that it leans on; `earlier` are the questions before it, the oldest first."""
    before = list(earlier)[-LOOKED_BACK:]
    if not before or not leans(question):
        return question
    context = self_contained(before[-1], before[:-1])
    own = set(map(str.lower, telling_words(question)))
    words = [word for word in telling_words(context) if word.lower() not in own]
    return f"{question} ({' '.join(words[:MOST_WORDS])})" if words else question


def leans(question: str) -> bool:
    """Whether a question says too little to be searched by itself."""
    told = len(telling_words(question))
    points_back = not BACKWARDS.isdisjoint(map(str.lower, POINTED.findall(question)))
    goes_on = ONWARDS.match(question) is not None
    return told <= FEW_WORDS or (told <= SELF_SUFFICIENT and (points_back or goes_on))
