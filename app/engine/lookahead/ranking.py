"""Ranks the successors of a context (the model's likeliest next tokens) by the score with which the sampler
will choose.

Greedy text continues with the likeliest token. Sampled text can be predicted as well, because the noise of
each token at each position is known in advance (sampling.py). The sampler draws

    argmax of logit / temperature + noise

so the successors of a context are ranked by the same sum. At temperature 1, if token 5 is half a logit
likelier than token 6:

    position 40    noise of 5: 0.1, of 6: 2.0      6 is drawn, with a lead of 2.0 - 0.1 - 0.5 = 1.4
    position 41    noise of 5: 0.9, of 6: 0.2      5 is drawn, with a lead of 0.9 - 0.2 + 0.5 = 1.2

Differences are multiplied by the temperature, so that a lead means the same as in greedy text.
"""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate
from math import exp, log

from app.engine.block.context_entries import GAP_STEP, GAPS, LEADS, MOST_GAP, gap_class
from app.engine.sampling.sampling import noise_key, noise_of
from app.values.messages import Sampling

Rank = Callable[[Sequence[int], int], list[tuple[int, int]]]
"""(packed successors, likeliest first; position of the guess) -> [(token, gap class)], the expected token first.

`context_entries.py` explains packed successors and gap classes."""

SUREST_LEAD = LEADS - 1

_CLASSES = tuple(gap_class(gap * GAP_STEP) for gap in range(MOST_GAP + 1))
"""Maps each packed gap to its gap class, so that `gap_class` is computed only once for each."""

HOPELESS = 12.0
"""A token whose logit over temperature is this far below the best is drawn about six times in a million at most."""


def likeliest_first(packed_successors: Sequence[int], position: int) -> list[tuple[int, int]]:
    """Rank for greedy text, which continues with the likeliest token at every position."""
    del position
    ranked = [((packed >> 10) - 1, _CLASSES[packed & MOST_GAP]) for packed in packed_successors]
    token, gap = ranked[0]
    ranked[0] = token, LEADS + gap
    return ranked


POSITIONS = 128
"""Maximum number of positions whose noise is kept. A tree guesses at most 31 positions ahead."""


class _Noise(dict[int, float]):
    """The noise of the tokens at one position; each value is computed when it is first used."""

    def __init__(self, key: int) -> None:
        super().__init__()
        self._key = key

    def __missing__(self, token: int) -> float:
        noise = self[token] = noise_of(self._key, token)
        return noise


class SampledRank:
    """Drops successors by top-k, top-p and min-p, and ranks the rest by logit / temperature + noise."""

    def __init__(self, sampling: Sampling) -> None:
        self._seed = sampling.seed
        self._temperature = sampling.temperature
        self._step = GAP_STEP / sampling.temperature
        self._noise: dict[int, _Noise] = {}
        self._top_k, self._top_p = sampling.top_k, sampling.top_p
        self._farthest = farthest(sampling)

    def __call__(self, packed_successors: Sequence[int], position: int) -> list[tuple[int, int]]:
        survivors = self._survivors(packed_successors)
        if len(survivors) == 1:  # it is drawn whatever its noise is
            return [(survivors[0][0], LEADS + SUREST_LEAD)]
        # A position's noise is kept, because nodes of equal depth and the next step need it, too.
        noise, temperature = self._noise.get(position), self._temperature
        if noise is None:
            if len(self._noise) == POSITIONS:
                self._noise.clear()
            noise = self._noise[position] = _Noise(noise_key(self._seed, position))
        scored = [(noise[token] - behind, token) for token, behind in survivors]
        scored.sort(reverse=True)
        best = scored[0][0]
        ranked = [(token, bisect_right(GAPS, (best - score) * temperature)) for score, token in scored]
        ranked[0] = ranked[0][0], LEADS + ranked[1][1]
        return ranked

    def _survivors(self, packed_successors: Sequence[int]) -> list[tuple[int, float]]:
        """Apply the filters; return (token, distance to the best logit over temperature), likeliest first.

        At least one token is left."""
        step = self._step
        behind = [((packed >> 10) - 1, (packed & MOST_GAP) * step) for packed in packed_successors]
        behind[0] = behind[0][0], 0.0  # for the likeliest token, the packed gap is its lead
        kept = len(behind)
        if self._top_k:
            kept = min(kept, self._top_k)
        if self._farthest < behind[-1][1]:
            kept = min(kept, bisect_right(behind, self._farthest, key=lambda one: one[1]))
        if self._top_p < 1:
            sums = list(accumulate(exp(-far) for _, far in behind[:kept]))
            kept = min(kept, 1 + bisect_right(sums, self._top_p * sums[-1]))
        return behind[: max(kept, 1)]


def farthest(sampling: Sampling) -> float:
    """Return the largest distance to the best logit, divided by the temperature, at which tokens are ranked."""
    return min(-log(sampling.min_p), HOPELESS) if sampling.min_p > 0 else HOPELESS


def make_rank(sampling: Sampling) -> Rank:
    """Return the ranking function for text drawn with this sampling."""
    return SampledRank(sampling) if sampling.temperature > 0 else likeliest_first
