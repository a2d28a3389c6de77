"""Estimates how likely the model is to accept a draft token.

A candidate for the next token has two properties. The first comes from the model, the second from a text;
either may be missing:

    model: successor     it was among the model's likeliest tokens in this context: matched length, gap class
       or  alternative   it was among the likeliest tokens one position earlier, where the model chose the
                         current token instead: length of the known context, gap class
    text:  follower      it came next in a text: source, matched length, whether it is the newest follower and
                         whether it was seen again

Gap classes and sources are those of `context_entries.py`. The pair of properties is the candidate's cell, and each
cell counts how often the model agreed. A cell's prior (`priors.py`) counts like PRIOR observations:

    probability = (PRIOR * prior + accepted) / (PRIOR + tried)

After a drafted step all candidates for each new token count, even those without a row in the block, so the choice
of drafts does not bias the counts.

There are many cells and each learns slowly, but a text that is hard to guess is hard to guess in every cell. So the
probabilities, except of forced tokens, are scaled by one factor, `trust`: how often the likeliest candidate was
right recently, divided by how often it was expected to be right.
"""

from array import array
from collections.abc import Mapping
from functools import cache
from math import exp

from app.engine.block.context_entries import GAPS, LEADS, SOURCES
from app.engine.lookahead.context_table import LONGEST
from app.engine.lookahead.priors import BASE, FOLLOWER_WEIGHTS, SUCCESSOR_WEIGHTS
from app.values.messages import Origin

GAP_CLASSES = 2 * LEADS
RANKS = 4
"""Ranks of a follower: 0 newest, seen again; 1 newest, seen once; 2 older, seen again; 3 older, seen once."""
FIRST_CODE = 1 + LONGEST
"""The first code of a token that is among the successors (or followers) of a context. Codes 0 to 4 are for other
tokens: the code is the length of the longest known context."""
FIRST_ALTERNATIVE_CODE = FIRST_CODE + (1 + LONGEST) * GAP_CLASSES
NUM_SUCCESSOR_CODES = FIRST_ALTERNATIVE_CODE + FIRST_CODE * LEADS
NUM_FOLLOWER_CODES = FIRST_CODE + len(SOURCES) * LONGEST * RANKS
FORCED = NUM_SUCCESSOR_CODES * NUM_FOLLOWER_CODES
"""The cell of tokens that the reply's grammar forces. The forced string is certain, but the model may divide it
into other tokens."""
NUM_CELLS = FORCED + 1
DRAFTED = NUM_CELLS
"""The cell number of guesses by a draft model. Their chances are learned in `draft_model_chances.py`."""

CELLS_LAYOUT = (
    f"{NUM_SUCCESSOR_CODES} by {NUM_FOLLOWER_CODES}, gaps {list(GAPS)}, drawn, alternatives, anywhere"
)
"""The meaning of cell numbers. It is stored with the counts; counts of another layout cannot be used."""

PRIOR = 6.0
"""Number of observations that a prior is worth."""
FORCED_PRIOR = 0.95
"""The assumed chance that a model divides a forced string into tokens as its tokenizer would."""
FADE = 256.0
"""A cell's counts are halved when it has more observations than this."""

TRUST_PRIOR = 4.0
"""The first trust counts like this number of expected right guesses."""
TRUST_FADE = 0.96
"""Factor by which the weight of earlier guesses in the trust falls with each new guess."""
TRUST = (0.05, 1.1)
"""The smallest and the largest trust."""

Counts = dict[int, tuple[float, float]]
"""(accepted, tried) by cell."""


def successor_code(length: int, gap: int) -> int:
    """Return the code of a successor of a context of this length (0: of any context), with this gap class."""
    return FIRST_CODE + length * GAP_CLASSES + gap


def alternative_code(known: int, gap: int) -> int:
    """Return the code of a token that was likely one position earlier; `known` is the known context's length."""
    return FIRST_ALTERNATIVE_CODE + known * LEADS + gap


def follower_code(source: int, length: int, rank: int) -> int:
    """Return the code of a token that followed a context of this length in a text of this source."""
    return FIRST_CODE + (source * LONGEST + length - 1) * RANKS + rank


@cache
def origin_of(cell: int) -> Origin:
    """Return the origin of a guess of this cell: "grammar" for FORCED, "draft" for DRAFTED, "successor" if no text
    has the guess or if the model's matched context was longer, else the source of the text."""
    if cell == FORCED:
        return "grammar"
    if cell == DRAFTED:
        return "draft"
    successor, follower = divmod(cell, NUM_FOLLOWER_CODES)
    if follower < FIRST_CODE:
        return "successor"
    source, rest = divmod(follower - FIRST_CODE, LONGEST * RANKS)
    is_successor = FIRST_CODE <= successor < FIRST_ALTERNATIVE_CODE
    successor_length = (successor - FIRST_CODE) // GAP_CLASSES if is_successor else 0
    return SOURCES[source] if 1 + rest // RANKS >= successor_length else "successor"


class AcceptanceEstimator:
    """Estimates the chance of acceptance by cell. Drafters use its arrays [NUM_CELLS] directly, because calls are
    slow."""

    def __init__(
        self, counts: Mapping[int, tuple[float, float]] | None = None, first_trust: float = 1.0
    ) -> None:
        """Start from the priors and from the counts that an earlier run has stored."""
        # The odds of a cell's two codes are multiplied.
        successor = [exp(BASE + weight) for weight in SUCCESSOR_WEIGHTS]
        follower = [exp(weight) for weight in FOLLOWER_WEIGHTS]
        priors = (1 / (1 + 1 / (one * other)) for one in successor for other in follower)
        self.priors = array("d", [*priors, FORCED_PRIOR])
        self.rates = array("d", self.priors)
        self.accepted, self.tried = array("d", [0.0]) * NUM_CELLS, array("d", [0.0]) * NUM_CELLS
        self.trust = self.first_trust = first_trust
        self.expected = self.right = 0.0
        for cell, (accepted, tried) in (counts or {}).items():
            self._set(cell, accepted, tried)

    @property
    def counts(self) -> Counts:
        """The counts of all cells that were tried."""
        pairs = zip(self.accepted, self.tried, strict=True)
        return {cell: (accepted, tried) for cell, (accepted, tried) in enumerate(pairs) if tried}

    def observe_best(self, expected: float, is_right: bool) -> None:
        """Update the trust by the likeliest guess: its expected chance to be right, and whether it was."""
        self.expected = TRUST_FADE * self.expected + expected
        self.right = TRUST_FADE * self.right + is_right
        trust = (TRUST_PRIOR * self.first_trust + self.right) / (TRUST_PRIOR + self.expected)
        self.trust = min(max(trust, TRUST[0]), TRUST[1])

    def observe(self, cell: int, is_accepted: bool) -> None:
        """Count a candidate of this cell as accepted or not."""
        self._set(cell, self.accepted[cell] + is_accepted, self.tried[cell] + 1)

    def _set(self, cell: int, accepted: float, tried: float) -> None:
        if tried > FADE:
            accepted, tried = accepted / 2, tried / 2
        self.accepted[cell], self.tried[cell] = accepted, tried
        self.rates[cell] = (PRIOR * self.priors[cell] + accepted) / (PRIOR + tried)
