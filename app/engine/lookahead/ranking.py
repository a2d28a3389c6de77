"""Ranks the successors of a context by what the sampler will draw.

Greedy text goes on with the likeliest token. Sampled text can be predicted as well, because the noise of each token
at each position is known beforehand (sampling.py). The sampler draws

    argmax of logit / temperature + noise

so the successors of a context are ranked by the same sum. At temperature 1, with tokens 5 and 6 half a logit apart:

    position 40    noise of 5: 0.1, of 6: 2.0      6 comes, with a lead of 2.0 - 0.1 - 0.5 = 1.4
    position 41    noise of 5: 0.9, of 6: 0.2      5 comes, with a lead of 0.9 - 0.2 + 0.5 = 1.2

Differences are in logits (multiplied by the temperature), so that a lead means the same as in greedy text.
"""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import cache
from itertools import accumulate
from math import exp, log

from app.engine.lookahead.entries import GAP_STEP, LEADS, MOST_GAP, gap_class, unpack_successor
from app.engine.sampling import noise_key, noise_of
from app.messages import Sampling

Rank = Callable[[Sequence[int], int], list[tuple[int, int]]]
"""(packed successors, likeliest first; position of the guess) -> (token, gap class), the expected one first."""

SUREST_LEAD = LEADS - 1


def likeliest_first(packed_successors: Sequence[int], position: int) -> list[tuple[int, int]]:
    """Greedy text goes on with the likeliest, wherever it stands."""
    del position
    classes, lead = _classes(), LEADS
    ranked = []
    for packed in packed_successors:
        token, gap = unpack_successor(packed)
        ranked.append((token, lead + classes[gap]))
        lead = 0
    return ranked


class SampledRank:
    """Ranks as a text of this sampling will be drawn; its filters are applied to what is known."""

    def __init__(self, sampling: Sampling) -> None:
        self._seed = sampling.seed
        self._temperature = sampling.temperature
        self._top_k, self._top_p = sampling.top_k, sampling.top_p
        self._farthest = -log(sampling.min_p) if sampling.min_p > 0 else float("inf")

    def __call__(self, packed_successors: Sequence[int], position: int) -> list[tuple[int, int]]:
        """Logits over temperature, and noise."""
        key, temperature = noise_key(self._seed, position), self._temperature
        scored = [
            (noise_of(key, token) - behind, token) for token, behind in self._survivors(packed_successors)
        ]
        scored.sort(reverse=True)
        best = scored[0][0]
        ranked = [(token, gap_class((best - score) * temperature)) for score, token in scored]
        lead = ranked[1][1] if len(ranked) > 1 else SUREST_LEAD
        return [(ranked[0][0], LEADS + lead), *ranked[1:]]

    def _survivors(self, packed_successors: Sequence[int]) -> list[tuple[int, float]]:
        """(token, how far behind the likeliest, over temperature), likeliest first; never none of them."""
        entries = [unpack_successor(packed) for packed in packed_successors]
        step = GAP_STEP / self._temperature
        behind = [(entries[0][0], 0.0), *((token, gap * step) for token, gap in entries[1:])]
        kept = len(behind)
        if self._top_k:
            kept = min(kept, self._top_k)
        if self._farthest < behind[-1][1]:
            kept = min(kept, bisect_right(behind, self._farthest, key=lambda one: one[1]))
        if self._top_p < 1:
            sums = list(accumulate(exp(-far) for _, far in behind[:kept]))
            kept = min(kept, 1 + bisect_right(sums, self._top_p * sums[-1]))
        return behind[: max(kept, 1)]


def make_rank(sampling: Sampling) -> Rank:
    """How a text of this sampling goes on."""
    return SampledRank(sampling) if sampling.temperature > 0 else likeliest_first


@cache
def _classes() -> tuple[int, ...]:
    """The class of each gap that can be packed."""
    return tuple(gap_class(gap * GAP_STEP) for gap in range(MOST_GAP + 1))
