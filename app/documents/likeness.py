"""Whether one text is a newer form of another: they say much the same, passage by passage.

A name alone does not tell: two letters begin with the same words, and every folder has its notes.txt. Where it is
told wrongly, a text is lost, or the older form stays beside the newer. The first is worse, so half of the shorter
text's passages must be in the other; a text of a single passage that has changed stays a text of its own.
"""

from collections.abc import Iterable
from itertools import islice

from app.documents.chunking import chunks

LOOKED_AT = 200
"""Passages of each text's beginning that are compared: a tenth of a second's work, however long the texts are."""
LEAST_SHARED = 0.5


def is_newer_form(newer: Iterable[str], older: Iterable[str], source: str) -> bool:
    """Whether these texts, which come in parts, have enough passages in common."""
    one, other = (
        {found.text for found in islice(chunks(parts, source), LOOKED_AT)} for parts in (newer, older)
    )
    return len(one & other) >= LEAST_SHARED * min(len(one), len(other))
