"""Drawing for all rows at once says what drawing row by row says, and asks for one copy."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from app.engine.lookahead.plain import plain
from app.engine.runner.step import Decoder
from app.engine.sampling.batched_sampling import _survivors, draw_rows, make_batched_sampler, sampler_for
from app.engine.sampling.sampling import draw, likeliest, make_sampler, survivors
from app.engine.session.decoders import generate, make_decoder
from app.engine.text.stopping import StoppingCriteria
from app.values.messages import Decoding, Sampling
from tests.engine.architectures import LLAMA
from tests.engine.replies import Letters, Zoo, collect, numbers, says_plainly

SAMPLINGS = [
    Sampling(temperature=1.0),
    Sampling(temperature=0.7, seed=5),
    Sampling(temperature=1.0, top_k=40),
    Sampling(temperature=1.0, top_k=5000),
    Sampling(temperature=1.0, top_p=0.9),
    Sampling(temperature=1.2, min_p=0.02),
    Sampling(temperature=1.3, top_k=50, top_p=0.9, min_p=0.05, seed=9),
    Sampling(temperature=0.9, top_p=0.95, min_p=0.01),
]
SAMPLED = make_decoder(Decoding("lookahead", window=4, ngram=3, guesses=4))


def random_logits(seed: int, rows: int, size: int) -> Tensor:
    return torch.randn((rows, size), generator=torch.Generator().manual_seed(seed)) * 3


@pytest.mark.parametrize("sampling", SAMPLINGS, ids=repr)
@pytest.mark.parametrize("size", [37, 4096])
def test_all_rows_draw_what_each_draws_alone(sampling: Sampling, size: int) -> None:
    logits = random_logits(1, 64, size)
    positions = [100 + row // 3 for row in range(64)]
    expected = [draw(row, [0] * at, sampling) for row, at in zip(logits, positions, strict=True)]
    assert draw_rows(logits, positions, sampling).tolist() == expected
    sampler = make_batched_sampler(sampling)
    choices = sampler(logits, 8, positions)
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
    logits = random_logits(seed, rows, 30)
    expected = [draw(logits[row], [0] * (row + 7), sampling) for row in range(rows)]
    assert draw_rows(logits, range(7, 7 + rows), sampling).tolist() == expected


@pytest.mark.parametrize("sampling", SAMPLINGS, ids=repr)
def test_a_row_draws_alike_among_few_and_among_many_even_where_logits_are_equal(sampling: Sampling) -> None:
    logits = random_logits(2, 40, 3000).round().bfloat16()
    positions = range(20, 60)
    alone = [draw_rows(logits[row : row + 1], [20 + row], sampling).item() for row in range(40)]
    assert draw_rows(logits, positions, sampling).tolist() == alone


class Logarithms(TorchDispatchMode):
    """Counts the numbers that a logarithm is taken of."""

    count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if str(func).startswith("aten.log."):
            self.count += args[0].numel()
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("filters", [{"top_p": 0.9}, {"min_p": 0.1}], ids=str)
def test_only_tokens_that_the_filters_leave_get_noise(filters: dict[str, float]) -> None:
    logits, sampling = random_logits(5, 4, 3000), Sampling(temperature=0.5, **filters)  # type: ignore[arg-type]
    left = sum(len(survivors(row / 0.5, sampling)[0]) for row in logits)
    with Logarithms() as counted:
        draw_rows(logits, range(4), sampling)
    assert left < 400
    assert counted.count == 2 * left


def test_rows_that_are_too_many_for_one_piece_draw_the_same() -> None:
    logits, sampling = random_logits(3, 9, 100), SAMPLINGS[6]
    expected = draw_rows(logits, range(9), sampling).tolist()
    assert draw_rows(logits, range(9), sampling, values=250).tolist() == expected


@pytest.mark.parametrize("count", [1, 2, 8])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_the_likeliest_come_along_as_ever(count: int, dtype: torch.dtype) -> None:
    logits = random_logits(4, 30, 200).round().to(dtype)
    expected_ids, expected_values = likeliest(logits, count)
    for sampling in (Sampling(), Sampling(temperature=1.0)):
        choices = make_batched_sampler(sampling)(logits, count, range(30))
        assert choices.ids[:, 0].tolist() == expected_ids[:, 0].tolist() == logits.argmax(-1).tolist()
        assert choices.logits.tolist() == expected_values.tolist()
        assert all(len(set(row)) == count for row in choices.ids.tolist())


def test_a_row_that_is_asked_about_another_position_draws_for_that_one() -> None:
    logits, sampling = random_logits(5, 2, 50), Sampling(temperature=2.0)
    choices = make_batched_sampler(sampling)(logits, positions=(3, 4))
    assert choices.choose(1, [0] * 9) == draw(logits[1], [0] * 9, sampling)


def test_rows_without_a_position_are_refused() -> None:
    with pytest.raises(ValueError, match="each row needs its position, got 1 for 2 rows"):
        make_batched_sampler(Sampling(temperature=1.0))(torch.zeros(2, 5), positions=(3,))


def test_the_device_and_the_penalty_choose() -> None:
    penalty = Sampling(temperature=1.0, repetition_penalty=1.3)
    assert type(sampler_for(Sampling(), "cpu")) is type(make_sampler(Sampling()))
    assert sampler_for(Sampling(), "cpu") is make_sampler(Sampling())
    assert sampler_for(Sampling(), "cuda:0").func is make_batched_sampler(Sampling()).func  # type: ignore[attr-defined]
    assert make_batched_sampler(penalty).func is make_sampler(penalty).func  # type: ignore[attr-defined]


@pytest.mark.parametrize("decoder", [plain, SAMPLED], ids=["plain", "lookahead"])
@pytest.mark.parametrize("sampling", [Sampling(), *SAMPLINGS[2:5]], ids=repr)
def test_whole_replies_are_those_of_row_by_row(zoo: Zoo, decoder: Decoder, sampling: Sampling) -> None:
    runner, prompt = zoo.runner(LLAMA), numbers(20)
    sampling = replace(sampling, temperature=sampling.temperature and 2.0)
    expected = says_plainly(runner, prompt, sampling)
    runner.forget()
    stopper = StoppingCriteria(frozenset(), 40, runner.context - 20, (), Letters().decode)
    said = collect(generate(runner, prompt, decoder, make_batched_sampler(sampling), stopper))
    assert said.tokens == expected.tokens


@pytest.mark.parametrize("tokens", [7, 10, 49, 100, 1000])
def test_a_token_at_the_border_of_top_p_is_kept_in_both_or_in_none(tokens: int) -> None:
    """Of equal chances each border of top-p lies where rounding decides."""
    scores = torch.zeros(tokens)
    for count in range(1, tokens, max(1, tokens // 50)):
        sampling = Sampling(temperature=1.0, top_p=count / tokens)
        alone, _ = survivors(scores, sampling)
        ids, kept = _survivors(scores[None], sampling)
        assert alone.tolist() == ids[0][kept[0] > -torch.inf].tolist()
