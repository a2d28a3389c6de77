"""Estimates how likely a draft token is accepted, from every candidate on the model's path.

A candidate for the next token has two properties, of the model and of a text, each of which may be missing:

    successor    it was among the model's likeliest tokens in this context: matched length, gap class
    alternative  else: it was among the likeliest in place of the current token, which the model chose: gap class
    follower     it came next in a text: source, matched length, whether it is the newest and was seen again

The pair is its cell, and each cell counts how often the model agreed. Before a cell has counts of its own it starts
from weights that were fitted on other models (`labs/acceptance_priors.py`), worth a few observations:

    probability = (PRIOR * prior + accepted) / (PRIOR + tried)

Every candidate behind an accepted token counts, whether it had a row in the block or not, so the counts are not
biased by what was drafted. Old counts fade by halves, so that a cell follows the text.

There are many cells and each learns slowly, but a text that is hard to guess is hard everywhere. So all
probabilities are scaled by one calibration factor, `trust`: how often the likeliest candidate was right lately,
divided by how often it should have been.
"""

from array import array
from collections.abc import Mapping
from functools import cache
from math import exp

from app.engine.block.entries import GAPS, LEADS, SOURCES
from app.engine.lookahead.context_table import LONGEST
from app.engine.lookahead.priors import BASE, FOLLOWER_WEIGHTS, SUCCESSOR_WEIGHTS
from app.values.messages import Origin

GAP_CLASSES = 2 * LEADS
RANKS = 4
"""Of a follower: newest and seen again, newest, older and seen again, older."""
FIRST_CODE = 1 + LONGEST
"""Codes 0 to 4 say that a token is not among what was known of a context of this length."""
FIRST_ALTERNATIVE_CODE = FIRST_CODE + (1 + LONGEST) * GAP_CLASSES
NUM_SUCCESSOR_CODES = FIRST_ALTERNATIVE_CODE + FIRST_CODE * LEADS
NUM_FOLLOWER_CODES = FIRST_CODE + len(SOURCES) * LONGEST * RANKS
FORCED = NUM_SUCCESSOR_CODES * NUM_FOLLOWER_CODES
"""The cell of what the reply's grammar leaves no choice about, but for how it is cut into tokens."""
NUM_CELLS = FORCED + 1
DRAFTED = NUM_CELLS
"""Stands for guesses of a draft model, whose chances are counted elsewhere (`draft_model_chances.py`)."""

CELLS_LAYOUT = (
    f"{NUM_SUCCESSOR_CODES} by {NUM_FOLLOWER_CODES}, gaps {list(GAPS)}, drawn, alternatives, anywhere"
)
"""What a cell's number means: counts kept under another layout are of no use."""

PRIOR = 6.0
"""Observations that a prior is worth."""
FORCED_PRIOR = 0.95
"""The chance that a model cuts what is forced into tokens as its tokenizer would."""
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


def successor_code(length: int, gap: int) -> int:
    """The model held it likely in a context of this length, 0 where it says so anywhere; a gap class."""
    return FIRST_CODE + length * GAP_CLASSES + gap


def alternative_code(known: int, gap: int) -> int:
    """The model held it likely one token before; a context of this length, which may be 0, has other successors."""
    return FIRST_ALTERNATIVE_CODE + known * LEADS + gap


def follower_code(source: int, length: int, rank: int) -> int:
    """It came next in a text of this source, behind a context of this length."""
    return FIRST_CODE + (source * LONGEST + length - 1) * RANKS + rank


@cache
def origin_of(cell: int) -> Origin:
    """Who proposed a candidate of this cell: its text, unless the model spoke of a longer context."""
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
    """Chances by cell. Its arrays [NUM_CELLS] and sums are read and written directly, where microseconds count."""

    def __init__(
        self, counts: Mapping[int, tuple[float, float]] | None = None, first_trust: float = 1.0
    ) -> None:
        """Starts from the priors, and from the counts that an earlier run kept."""
        self.priors = array("d", _priors())
        self.rates = array("d", self.priors)
        self.accepted, self.tried = array("d", [0.0]) * NUM_CELLS, array("d", [0.0]) * NUM_CELLS
        self.trust = self.first_trust = first_trust
        self.expected = self.right = 0.0
        for cell, (accepted, tried) in (counts or {}).items():
            self._set(cell, accepted, tried)

    @property
    def counts(self) -> Counts:
        """Of the cells that were tried."""
        pairs = zip(self.accepted, self.tried, strict=True)
        return {cell: (accepted, tried) for cell, (accepted, tried) in enumerate(pairs) if tried}

    def observe_best(self, expected: float, is_right: bool) -> None:
        """The likeliest guess was expected to be right this often, and was right or not."""
        self.expected = TRUST_FADE * self.expected + expected
        self.right = TRUST_FADE * self.right + is_right
        trust = (TRUST_PRIOR * self.first_trust + self.right) / (TRUST_PRIOR + self.expected)
        self.trust = min(max(trust, TRUST[0]), TRUST[1])

    def observe(self, cell: int, is_accepted: bool) -> None:
        """A candidate of this cell stood behind an accepted token, and was right or not."""
        self._set(cell, self.accepted[cell] + is_accepted, self.tried[cell] + 1)

    def _set(self, cell: int, accepted: float, tried: float) -> None:
        if tried > FADE:
            accepted, tried = accepted / 2, tried / 2
        self.accepted[cell], self.tried[cell] = accepted, tried
        self.rates[cell] = (PRIOR * self.priors[cell] + accepted) / (PRIOR + tried)


def _priors() -> list[float]:
    """By cell, from one weight for each code: the odds multiply."""
    successor = [exp(BASE + weight) for weight in SUCCESSOR_WEIGHTS]
    follower = [exp(weight) for weight in FOLLOWER_WEIGHTS]
    return [*(1 / (1 + 1 / (one * other)) for one in successor for other in follower), FORCED_PRIOR]
