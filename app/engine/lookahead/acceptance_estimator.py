"""How likely a guess is accepted, learned from every guess that was on the model's path.

A candidate for the next token is known by two things, each of which may be missing:

    said    the model held it likely when this context last stood somewhere: matched length, gap class
    seen    it came next in a text: source, matched length, whether it is the newest and was seen again

The pair is its cell, and each cell counts how often the model agreed. Before a cell has counts of its own it
starts from weights that were fitted on other models (`tools/edge_chances.py`), worth a few observations:

    chance = (PRIOR * prior + accepted) / (PRIOR + tried)

Every candidate behind an accepted token counts, whether it had a row in the block or not: so the counts are not
biased by what was tried. Old counts fade by halves, so that a cell follows the text.

Cells are many and learn slowly, but a text that is hard to guess is hard everywhere. So all chances are scaled by
one `trust`: how often the likeliest guess was right lately, against how often it should have been.
"""

from collections.abc import Mapping
from functools import cache
from math import exp

from app.engine.lookahead.contexts import LONGEST
from app.engine.lookahead.entries import GAPS, LEADS, SOURCES
from app.engine.lookahead.priors import BASE, SAID_WEIGHTS, SEEN_WEIGHTS
from app.messages import Origin

GAP_CLASSES = 2 * LEADS
RANKS = 4
"""Of a follower: newest and seen again, newest, older and seen again, older."""
FIRST_CODE = 1 + LONGEST
"""Codes 0 to 4 say that a token is not among what was known of a context of this length."""
NUM_SAID = FIRST_CODE + LONGEST * GAP_CLASSES
NUM_SEEN = FIRST_CODE + len(SOURCES) * LONGEST * RANKS
NUM_CELLS = NUM_SAID * NUM_SEEN

CELLS_LAYOUT = f"{NUM_SAID} by {NUM_SEEN}, gaps {list(GAPS)}, drawn"
"""What a cell's number means: counts kept under another layout are of no use."""

PRIOR = 6.0
"""Observations that a prior is worth."""
FADE = 256.0
"""Observations after which a cell's counts are halved."""

TRUST_PRIOR = 4.0
"""Guesses that were as right as they should have been, before any was made."""
TRUST_FADE = 0.96
"""What is left of a guess in the trust after the next one."""
TRUST = (0.05, 1.1)
"""The least and the most of it."""

Counts = dict[int, tuple[float, float]]
"""(accepted, tried) by cell."""


def said_code(length: int, gap: int) -> int:
    """The model held it likely in a context of this length; a gap class."""
    return FIRST_CODE + (length - 1) * GAP_CLASSES + gap


def seen_code(source: int, length: int, rank: int) -> int:
    """It came next in a text of this source, behind a context of this length."""
    return FIRST_CODE + (source * LONGEST + length - 1) * RANKS + rank


@cache
def origin_of(cell: int) -> Origin:
    """Who proposed a candidate of this cell: its text, unless the model spoke of a longer context."""
    said, seen = divmod(cell, NUM_SEEN)
    if seen < FIRST_CODE:
        return "successor"
    source, rest = divmod(seen - FIRST_CODE, LONGEST * RANKS)
    said_length = 1 + (said - FIRST_CODE) // GAP_CLASSES if said >= FIRST_CODE else 0
    return SOURCES[source] if 1 + rest // RANKS >= said_length else "successor"


class AcceptanceEstimator:
    """Chances by cell. `rates` [NUM_CELLS] is read directly, where microseconds count."""

    def __init__(
        self, counts: Mapping[int, tuple[float, float]] | None = None, first_trust: float = 1.0
    ) -> None:
        """Starts from the priors, and from the counts that an earlier run kept."""
        self._priors = _priors()
        self.rates = list(self._priors)
        self.counts: Counts = {}
        self.trust = self._first_trust = first_trust
        self._expected = self._right = 0.0
        for cell, (accepted, tried) in (counts or {}).items():
            self._set(cell, accepted, tried)

    def judge(self, expected: float, is_right: bool) -> None:
        """The likeliest guess was expected to be right this often, and was right or not."""
        self._expected = TRUST_FADE * self._expected + expected
        self._right = TRUST_FADE * self._right + is_right
        trust = (TRUST_PRIOR * self._first_trust + self._right) / (TRUST_PRIOR + self._expected)
        self.trust = min(max(trust, TRUST[0]), TRUST[1])

    def observe(self, cell: int, is_accepted: bool) -> None:
        """A candidate of this cell stood behind an accepted token, and was right or not."""
        accepted, tried = self.counts.get(cell, (0.0, 0.0))
        self._set(cell, accepted + is_accepted, tried + 1)

    def _set(self, cell: int, accepted: float, tried: float) -> None:
        if tried > FADE:
            accepted, tried = accepted / 2, tried / 2
        self.counts[cell] = accepted, tried
        self.rates[cell] = (PRIOR * self._priors[cell] + accepted) / (PRIOR + tried)


def _priors() -> list[float]:
    """By cell, from one weight for each code: the odds multiply."""
    said = [exp(BASE + weight) for weight in SAID_WEIGHTS]
    seen = [exp(weight) for weight in SEEN_WEIGHTS]
    return [1 / (1 + 1 / (one * other)) for one in said for other in seen]
