"""What is expected of a drawn text is what will be drawn, as long as the model does not change its mind."""

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from app.engine.block.context_entries import LEADS, SUCCESSORS, gap_class, pack_successors
from app.engine.lookahead.ranking import SampledRank, likeliest_first, make_rank
from app.engine.sampling.sampling import draw, noise_key, noise_of
from app.values.messages import Sampling

TOKENS = [11, 7, 40, 3, 25, 60, 2, 33]
LOGITS = st.lists(st.integers(0, 200).map(lambda steps: steps / 32), min_size=2, max_size=SUCCESSORS)


def said(logits: Sequence[float]) -> list[int]:
    """Packed successors: the first of TOKENS with these logits, best first."""
    best_first = np.sort(np.array([logits], dtype=np.float32))[:, ::-1]
    row: list[int] = pack_successors(np.array([TOKENS[: len(logits)]]), best_first)[0].tolist()
    return row[: len(logits)]


def model(logits: Sequence[float]) -> torch.Tensor:
    """The same as a model's logits over a vocabulary of 64, where all other tokens are out of reach."""
    all_logits = torch.full((64,), -1e4)
    all_logits[TOKENS[: len(logits)]] = torch.tensor(sorted(logits, reverse=True))
    return all_logits


def test_greedy_text_goes_on_with_the_likeliest() -> None:
    assert make_rank(Sampling()) is likeliest_first
    assert likeliest_first(said([5.0, 4.0, 1.0]), 9) == [
        (11, LEADS + gap_class(1.0)),
        (7, gap_class(1.0)),
        (40, gap_class(4.0)),
    ]


@given(
    logits=LOGITS,
    temperature=st.floats(0.1, 3),
    seed=st.integers(0, 2**32),
    position=st.integers(0, 4000),
    top_k=st.sampled_from([0, 1, 3]),
    min_p=st.sampled_from([0.0, 0.2]),
)
def test_the_first_one_is_what_will_be_drawn(
    logits: list[float], temperature: float, seed: int, position: int, top_k: int, min_p: float
) -> None:
    sampling = Sampling(temperature, top_k, min_p=min_p, seed=seed)
    expected = draw(model(logits), [0] * position, sampling)
    ranked = make_rank(sampling)(said(logits), position)
    is_tie = len(set(logits)) < len(logits) and (
        top_k or min_p
    )  # which of equals a filter keeps is torch's affair
    assert is_tie or ranked[0][0] == expected


@pytest.mark.parametrize("top_p", [0.3, 0.7, 0.95])
def test_a_nucleus_keeps_what_the_filter_keeps(top_p: float) -> None:
    logits = [3.0, 2.5, 1.0, 0.5, 0.0]
    sampling = Sampling(1.0, top_p=top_p)
    for position in range(50):
        expected = draw(model(logits), [0] * position, sampling)
        assert SampledRank(sampling)(said(logits), position)[0][0] == expected


def test_over_many_positions_the_expected_ones_follow_the_softmax() -> None:
    rank = make_rank(Sampling(1.0))
    counts = Counter(rank(said([2.0, 1.0, 0.0]), position)[0][0] for position in range(4000))
    shares = torch.tensor([2.0, 1.0, 0.0]).softmax(0).tolist()
    assert [counts[token] / 4000 for token in TOKENS[:3]] == pytest.approx(shares, abs=0.03)


def test_a_lead_is_told_in_logits() -> None:
    """Twice the temperature makes half of each difference, and is taken back."""
    sampling = Sampling(2.0, seed=5)
    ranked = SampledRank(sampling)(said([4.0, 3.0]), 17)
    noise = [noise_of(noise_key(5, 17), token) for token in TOKENS[:2]]
    ahead = 2 * (noise[0] - noise[1]) + 1.0
    expected = TOKENS[:2] if ahead > 0 else TOKENS[1::-1]
    assert [token for token, _ in ranked] == expected
    assert [gap for _, gap in ranked] == [LEADS + gap_class(abs(ahead)), gap_class(abs(ahead))]


def test_one_alone_is_as_sure_as_can_be() -> None:
    assert SampledRank(Sampling(1.0))(said([1.0]), 3) == [(11, 2 * LEADS - 1)]
