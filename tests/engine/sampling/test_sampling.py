"""Draws have the softmax's distribution, are a function of (logits, seed, position), and filter as others do.

All rows at once draw what each draws alone, and ask for one copy.
"""

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare, kstest  # type: ignore[import-untyped]
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import (
    LogitsProcessorList,
    MinPLogitsWarper,
    RepetitionPenaltyLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from app.engine.decoders import make_decoder
from app.engine.decoders.plain import plain
from app.engine.runner.step import Decoder
from app.engine.sampling.sampling import (
    draw,
    draw_rows,
    gumbel,
    likeliest,
    make_sampler,
    survivors,
)  # fmt: skip
from app.engine.session.reply_events import generate
from app.engine.text.stopping_criteria import StoppingCriteria
from app.values.messages import Decoding, Sampling
from tests.engine.architectures import LLAMA
from tests.engine.replies import Zoo, collect, numbers, says_plainly
from tests.tiers import named, some

DRAWS = 2000
UNLIKELY = 1e-4
"""Draws are keyed, so a test that is passed once is passed always."""
VOCABULARY = 12
FILTERS = [
    Sampling(temperature=1.0),
    Sampling(temperature=0.5),
    Sampling(temperature=2.5),
    Sampling(temperature=1.0, top_k=4),
    Sampling(temperature=1.0, top_p=0.8),
    Sampling(temperature=1.0, min_p=0.2),
    Sampling(temperature=1.3, top_k=9, top_p=0.9, min_p=0.05),
    Sampling(temperature=1.0, repetition_penalty=1.4),
]

LARGE = [
    *FILTERS[:1],
    Sampling(temperature=0.7, seed=5),
    Sampling(temperature=1.0, top_k=40),
    Sampling(temperature=1.0, top_k=5000),
    Sampling(temperature=1.0, top_p=0.9),
    Sampling(temperature=1.2, min_p=0.02),
    Sampling(temperature=1.3, top_k=50, top_p=0.9, min_p=0.05, seed=9),
    Sampling(temperature=0.9, top_p=0.95, min_p=0.01),
]
"""For many rows of many tokens."""
CARD = "cuda:0"
"""A device on which all rows draw at once; its samplers take logits on any."""
SAMPLED = make_decoder(Decoding("lookahead", window=4, ngram=3, guesses=4))


def random_logits(seed: int, size: int = VOCABULARY, spread: float = 1.5) -> Tensor:
    return torch.randn(size, generator=torch.Generator().manual_seed(seed)) * spread


def warped(logits: Tensor, history: Sequence[int], sampling: Sampling) -> Tensor:
    """Logits [vocab] as transformers' own processors leave them: -inf for what they filter out."""
    steps = LogitsProcessorList([RepetitionPenaltyLogitsProcessor(sampling.repetition_penalty)])
    steps.append(TemperatureLogitsWarper(sampling.temperature))
    if sampling.top_k:
        steps.append(TopKLogitsWarper(sampling.top_k))
    if sampling.top_p < 1:
        steps.append(TopPLogitsWarper(sampling.top_p))
    if sampling.min_p:
        steps.append(MinPLogitsWarper(sampling.min_p))
    ids = torch.tensor([list(history)])
    scores: Tensor = steps(ids, logits[None].clone())[0]  # type: ignore[arg-type]
    return scores


@pytest.mark.parametrize("sampling", some(named(FILTERS), str(FILTERS[4]), str(FILTERS[-2])))
def test_draws_at_many_positions_have_the_softmaxs_distribution(sampling: Sampling) -> None:
    logits, history = random_logits(3), [1, 5, 5]
    choices = make_sampler(sampling)(logits[None])
    drawn = [choices.choose(0, [*history, *[1] * place]) for place in range(DRAWS)]
    assert_distributed(drawn, warped(logits, history, sampling).double().softmax(dim=-1))


def test_draws_with_many_seeds_have_the_softmaxs_distribution() -> None:
    logits = random_logits(4)
    drawn = [draw(logits, [1, 5], Sampling(temperature=1.0, seed=seed)) for seed in range(DRAWS)]
    assert_distributed(drawn, logits.double().softmax(dim=-1))


def assert_distributed(drawn: Sequence[int], chances: Tensor) -> None:
    """A chi-square test; what has no chance must never come."""
    counts = np.bincount(drawn, minlength=len(chances))
    possible = chances.numpy() > 0
    assert counts[~possible].sum() == 0
    # Below about five expected draws a chi-square says little: rare tokens are counted together.
    order = np.argsort(chances.numpy())[::-1][: possible.sum()]
    expected, seen = chances.numpy()[order] * len(drawn), counts[order]
    rare = expected < 5
    pooled_expected = [*expected[~rare], *([expected[rare].sum()] if rare.any() else [])]
    pooled_seen = [*seen[~rare], *([seen[rare].sum()] if rare.any() else [])]
    assert len(pooled_seen) > 1
    total = sum(pooled_seen) / sum(pooled_expected)
    assert chisquare(pooled_seen, np.array(pooled_expected) * total).pvalue > UNLIKELY


def test_the_next_position_is_drawn_independently() -> None:
    logits, sampling = torch.zeros(4), Sampling(temperature=1.0)
    drawn = [draw(logits, [0] * place, sampling) for place in range(DRAWS)]
    pairs = [4 * one + other for one, other in itertools.pairwise(drawn)]
    assert_distributed(pairs, torch.full((16,), 1 / 16, dtype=torch.float64))


def test_the_noise_is_gumbels() -> None:
    ids = torch.arange(500)
    noise = torch.cat([gumbel(7, position, ids) for position in range(40)])
    assert kstest(noise.numpy(), "gumbel_r").pvalue > UNLIKELY


@given(seed=st.integers(0, 2**63 - 1), position=st.integers(0, 2**40))
def test_the_noise_is_never_infinite(seed: int, position: int) -> None:
    assert torch.isfinite(gumbel(seed, position, torch.arange(2000))).all()


def test_the_same_key_draws_the_same_token() -> None:
    logits, sampling = random_logits(5, 500), Sampling(temperature=1.5, seed=11)
    assert len({draw(logits, [1, 2, 3], sampling) for _ in range(10)}) == 1


def test_another_seed_or_another_position_draws_anew() -> None:
    logits = torch.zeros(5000)
    by_seed = {draw(logits, [1, 2], Sampling(temperature=1.0, seed=seed)) for seed in range(50)}
    by_position = {draw(logits, [1] * place, Sampling(temperature=1.0)) for place in range(50)}
    assert (len(by_seed) > 45, len(by_position) > 45) == (True, True)


def test_the_tokens_before_do_not_matter_but_their_number_does() -> None:
    logits, sampling = torch.zeros(5000), Sampling(temperature=1.0)
    assert draw(logits, [1, 2, 3], sampling) == draw(logits, [7, 8, 9], sampling)


def test_a_filtered_draw_takes_the_same_noise_as_an_unfiltered_one() -> None:
    ids = torch.tensor([40, 7, 21])
    assert torch.equal(gumbel(1, 5, ids), gumbel(1, 5, torch.arange(50))[ids])


def test_greedy_takes_the_likeliest_and_ignores_seed_and_position() -> None:
    rows = torch.stack([random_logits(seed) for seed in range(4)])
    expected = rows.argmax(dim=-1).tolist()
    for seed in (0, 1):
        choices = make_sampler(Sampling(seed=seed))(rows)
        assert [choices.choose(row, [1] * seed) for row in range(4)] == expected
        assert choices.ids[:, 0].tolist() == expected


def test_greedy_with_a_penalty_takes_the_likeliest_that_is_left() -> None:
    choices = make_sampler(Sampling(repetition_penalty=2.0))(torch.tensor([[3.0, 2.0, -1.0]]))
    assert choices.choose(0, [2]) == 0
    assert choices.choose(0, [0, 2]) == 1


def test_a_penalty_follows_each_rows_own_path() -> None:
    choices = make_sampler(Sampling(repetition_penalty=2.0))(torch.tensor([[3.0, 2.0, 0.0]] * 2))
    assert [choices.choose(0, [2]), choices.choose(1, [2, 0])] == [0, 1]


@given(
    seed=st.integers(0, 1000),
    temperature=st.floats(0.1, 5),
    top_k=st.integers(0, 40),
    top_p=st.floats(0.0625, 1, width=32),  # transformers adds up in float32
    min_p=st.floats(0, 0.9),
)
def test_the_filters_leave_the_tokens_that_transformers_leaves(
    seed: int, temperature: float, top_k: int, top_p: float, min_p: float
) -> None:
    sampling = Sampling(temperature, top_k, top_p, min_p)
    logits = random_logits(seed, 30)
    ids, scores = survivors(logits / temperature, sampling)
    expected = warped(logits, [0], sampling)
    assert set(ids.tolist()) == set(torch.isfinite(expected).nonzero().flatten().tolist())
    torch.testing.assert_close(scores, expected[ids])


def test_the_likeliest_token_always_survives() -> None:
    ids, _ = survivors(torch.tensor([0.0, 5.0, 1.0]), Sampling(1.0, top_k=1, top_p=0.01, min_p=0.99))
    assert ids.tolist() == [1]


def test_half_precision_logits_are_drawn_as_their_float32_values() -> None:
    logits = random_logits(6, 400).bfloat16()
    sampling = Sampling(temperature=0.8, top_p=0.95)
    for place in range(20):
        assert draw(logits, [1] * place, sampling) == draw(logits.float(), [1] * place, sampling)


@given(seed=st.integers(0, 1000), rows=st.integers(1, 5), count=st.integers(1, 20))
def test_the_likeliest_tokens_come_best_first_with_their_logits(seed: int, rows: int, count: int) -> None:
    logits = random_logits(seed, rows * VOCABULARY).reshape(rows, VOCABULARY)
    ids, values = likeliest(logits, count)
    assert ids.shape == values.shape == (rows, min(count, VOCABULARY))
    assert (np.take_along_axis(logits.numpy(), ids, axis=1) == values).all()
    assert (values[:, 0] == logits.max(dim=-1).values.numpy()).all()
    assert (np.diff(values, axis=1) <= 0).all()
    assert all(len(set(row)) == len(row) for row in ids.tolist())


@pytest.mark.parametrize("vocabulary", [8_191, 8_192, 9_000, 50_257])
@pytest.mark.parametrize("count", [2, 8, 40])
def test_the_likeliest_tokens_of_a_large_vocabulary_are_those_of_topk(vocabulary: int, count: int) -> None:
    logits = random_logits(count, 4 * vocabulary).reshape(4, vocabulary)
    logits[0, -count:] += 20  # behind the last whole block
    logits[1, 300 : 300 + count] += 20  # side by side in a block or two
    best = logits.topk(count, dim=-1)
    ids, values = likeliest(logits, count)
    assert (ids.tolist(), values.tolist()) == (best.indices.tolist(), best.values.tolist())


@given(
    row=st.lists(st.sampled_from([0.0, 1.0, 2.0]), min_size=1, max_size=40),
    count=st.integers(1, 12),
    dtype=st.sampled_from([torch.float32, torch.bfloat16]),
)
def test_the_first_of_the_likeliest_is_argmaxs_even_where_many_are_equal(
    row: list[float], count: int, dtype: torch.dtype
) -> None:
    logits = torch.tensor([row, row[::-1]], dtype=dtype)
    ids, values = likeliest(logits, count)
    assert ids[:, 0].tolist() == logits.argmax(dim=-1).tolist()
    assert all(len(set(found)) == len(found) for found in ids.tolist())
    assert (np.take_along_axis(logits.float().numpy(), ids, axis=1) == values).all()


@pytest.mark.parametrize("vocabulary", [5000, 9000, 8192])
def test_a_tie_of_eight_is_won_by_the_lowest_wherever_it_stands(vocabulary: int) -> None:
    for lowest in range(0, vocabulary - 800, 371):
        logits = torch.zeros(1, vocabulary)
        logits[0, lowest : lowest + 800 : 100] = 3.0
        ids, values = likeliest(logits, 8)
        assert sorted(ids[0].tolist()) == list(range(lowest, lowest + 800, 100))
        assert (ids[0, 0], values[0].tolist()) == (lowest, [3.0] * 8)


def random_rows(seed: int, rows: int, size: int) -> Tensor:
    return torch.randn((rows, size), generator=torch.Generator().manual_seed(seed)) * 3


@pytest.mark.parametrize("sampling", LARGE, ids=repr)
@pytest.mark.parametrize("has_ties", [False, True])
@pytest.mark.parametrize("size", [37, 4096])
def test_all_rows_draw_what_each_draws_alone(sampling: Sampling, size: int, has_ties: bool) -> None:
    logits = random_rows(1, 64, size)
    if has_ties:
        logits = logits.round().bfloat16()
    positions = [100 + row // 3 for row in range(64)]
    expected = [draw(row, [0] * at, sampling) for row, at in zip(logits, positions, strict=True)]
    assert draw_rows(logits, positions, sampling).tolist() == expected
    assert draw_rows(logits, positions, sampling, values=3 * size).tolist() == expected  # in many pieces
    for device in ("cpu", CARD, "mps"):
        choices = make_sampler(sampling, device)(logits, 8, positions)
        assert [choices.choose(row, [0] * at) for row, at in enumerate(positions)] == expected


@given(
    seed=st.integers(0, 1000),
    temperature=st.floats(0.1, 5),
    top_k=st.integers(0, 40),
    top_p=st.floats(0.05, 1),
    min_p=st.floats(0, 0.9),
    rows=st.integers(1, 5),
)
def test_any_filters_leave_the_same_draw(
    seed: int, temperature: float, top_k: int, top_p: float, min_p: float, rows: int
) -> None:
    sampling = Sampling(temperature, top_k, top_p, min_p, seed=seed)
    logits = random_rows(seed, rows, 30)
    expected = [draw(logits[row], [0] * (row + 7), sampling) for row in range(rows)]
    assert draw_rows(logits, range(7, 7 + rows), sampling).tolist() == expected


@pytest.mark.parametrize("tokens", [7, 10, 49, 100, 1000])
def test_a_token_at_the_border_of_a_filter_is_kept_alone_and_among_many_or_in_none(tokens: int) -> None:
    """Of equal chances each border of top-p lies where rounding decides, and top-k keeps the lowest ids."""
    scores = torch.zeros(3, tokens)
    for count in range(1, tokens, max(1, tokens // 20)):
        alone, _ = survivors(scores[0], Sampling(temperature=1.0, top_k=count))
        assert alone.tolist() == list(range(count))
        for sampling in (Sampling(1.0, top_p=count / tokens), Sampling(1.0, top_k=count)):
            each = [draw(row, [0] * at, sampling) for at, row in enumerate(scores)]
            assert draw_rows(scores, range(3), sampling).tolist() == each


class Logarithms(TorchDispatchMode):
    """Counts the numbers that a logarithm is taken of."""

    count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if str(func).startswith("aten.log."):
            self.count += args[0].numel()
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("filters", [{"top_p": 0.9}, {"min_p": 0.1}], ids=str)
def test_only_tokens_that_the_filters_leave_get_noise(filters: dict[str, float]) -> None:
    logits, sampling = random_rows(5, 4, 3000), Sampling(temperature=0.5, **filters)  # type: ignore[arg-type]
    left = sum(len(survivors(row / 0.5, sampling)[0]) for row in logits)
    with Logarithms() as counted:
        draw_rows(logits, range(4), sampling)
    assert left < 400
    assert counted.count == 2 * left


@pytest.mark.parametrize("count", [1, 2, 8])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("device", ["cpu", CARD])
def test_every_sampler_brings_the_likeliest_along(count: int, dtype: torch.dtype, device: str) -> None:
    logits = random_rows(4, 30, 200).round().to(dtype)
    expected_ids, expected_values = likeliest(logits, count)
    for sampling in (Sampling(), Sampling(temperature=1.0)):
        choices = make_sampler(sampling, device)(logits, count, range(30))
        assert choices.ids[:, 0].tolist() == expected_ids[:, 0].tolist() == logits.argmax(-1).tolist()
        assert choices.logits.tolist() == expected_values.tolist()
        assert all(len(set(row)) == count for row in choices.ids.tolist())


def test_a_row_that_is_asked_about_another_position_draws_for_that_one() -> None:
    logits, sampling = random_rows(5, 2, 50), Sampling(temperature=2.0)
    choices = make_sampler(sampling, CARD)(logits, positions=(3, 4))
    assert choices.choose(1, [0] * 9) == draw(logits[1], [0] * 9, sampling)


def test_rows_without_a_position_are_refused() -> None:
    with pytest.raises(ValueError, match="each row needs its position, not 1 for 2 rows"):
        make_sampler(Sampling(temperature=1.0), CARD)(torch.zeros(2, 5), positions=(3,))


def test_a_penalty_draws_row_by_row_on_a_card_too() -> None:
    penalty = Sampling(temperature=1.0, repetition_penalty=1.3)
    assert make_sampler(penalty, CARD).func is make_sampler(penalty).func  # type: ignore[attr-defined]


@pytest.mark.parametrize("decoder", [plain, SAMPLED], ids=["plain", "lookahead"])
@pytest.mark.parametrize("sampling", [Sampling(), *LARGE[2:5]], ids=repr)
def test_whole_replies_are_those_of_row_by_row(zoo: Zoo, decoder: Decoder, sampling: Sampling) -> None:
    runner, prompt = zoo.runner(LLAMA), numbers(20)
    sampling = replace(sampling, temperature=sampling.temperature and 2.0)
    expected = says_plainly(runner, prompt, sampling)
    runner.forget()
    stopper = StoppingCriteria(frozenset(), 28, runner.context - 20)
    said = collect(generate(runner, prompt, decoder, make_sampler(sampling, CARD), stopper))
    assert said.tokens == expected.tokens
