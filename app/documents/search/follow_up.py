"""Makes follow-up questions self-contained before a search. No model is used.

    What is the Caucus-race of the Dodo?
    Who won it?                             ->  Who won it? (Caucus-race Dodo)

A question is a follow-up when it has few words and refers back (it, they, that one) or continues (And …, What about
…), or when it has next to no words. It is searched with the words of the question before, which is made
self-contained in the same way.
"""

import re
from collections.abc import Sequence

from app.documents.search.terms import content_words

MAX_EARLIER = 3
"""Earlier questions that are considered."""
MAX_WORDS = 8
"""Words that are taken from the earlier question."""
FEW_WORDS = 1
"""A question with so few content words is always a follow-up."""
REFERRING_LIST = """
    it its they them their theirs he him his she her hers this that these those one ones there then same other
    another former latter such both either neither
    es sie er ihn ihm ihr ihre sein seine dies dieser diese dieses davon dazu dort
    il elle ils elles lui leur celui celle cela ello ella ellos ellas esto eso esta ese
"""
"""Words that refer back: English, German, French and Spanish."""
MAX_REFERRING_WORDS = 4
"""In a question with more content words, pronouns refer to the question itself."""
REFERRING = frozenset(REFERRING_LIST.split())
CONTINUING = re.compile(
    r"\s*(?:and|or|but|also|so|then|else|(?:what|how) about|what (?:if|else)|und|oder|aber|et|ou|mais|y|o|pero)"
    r"\b",
    re.IGNORECASE,
)
"""How a question begins that continues the one before."""
WORD = re.compile(r"\w+")


def self_contained(question: str, earlier: Sequence[str]) -> str:
    """A question with the words that it refers to; `earlier` are the questions before it, oldest first."""
    before = list(earlier)[-MAX_EARLIER:]
    if not before or not is_follow_up(question):
        return question
    context = self_contained(before[-1], before[:-1])
    own = set(map(str.lower, content_words(question)))
    words = [word for word in content_words(context) if word.lower() not in own]
    return f"{question} ({' '.join(words[:MAX_WORDS])})" if words else question


def is_follow_up(question: str) -> bool:
    """Whether a question has too few words to be searched by itself."""
    count = len(content_words(question))
    refers_back = not REFERRING.isdisjoint(map(str.lower, WORD.findall(question)))
    continues = CONTINUING.match(question) is not None
    return count <= FEW_WORDS or (count <= MAX_REFERRING_WORDS and (refers_back or continues))
