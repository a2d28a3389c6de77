"""What a step says of itself, and the running numbers."""

import pytest

from app.engine.runner.step import FirstToken, StatisticsMeter, Step
from app.values.messages import Origin


def test_a_step_with_a_drafted_token_is_a_hit() -> None:
    assert Step((1, 2), ("window", "model"), rows=4).is_hit
    assert not Step((2,), ("model",), rows=4).is_hit


@pytest.mark.parametrize(("tokens", "origins"), [((), ()), ((1, 2), ("model",))])
def test_a_step_commits_tokens_with_an_origin_each(
    tokens: tuple[int, ...], origins: tuple[Origin, ...]
) -> None:
    with pytest.raises(ValueError, match="a step commits tokens with an origin each, got"):
        Step(tokens, origins, rows=1)


def test_the_numbers_add_up_and_the_first_token_counts_in_neither_tokens_nor_steps() -> None:
    meter = StatisticsMeter(prompt_tokens=9)
    first = meter.first_token(FirstToken(5, reused=4))
    assert (first.tokens, first.steps, first.prompt_tokens, first.reused_tokens) == (0, 0, 9, 4)
    meter.add(Step((1, 2, 3), ("window", "prompt", "model"), rows=10, is_covered=True, pool_size=7))
    meter.add(Step((4,), ("model",), rows=6, is_covered=True, pool_size=8))
    numbers = meter.add(Step((5,), ("model",), rows=2, pool_size=8))
    assert (numbers.tokens, numbers.steps, numbers.hits, numbers.covered) == (5, 3, 1, 2)
    assert (numbers.rows, numbers.pool_size) == (18, 8)
    assert (numbers.tokens_per_step, numbers.rows_per_step) == (5 / 3, 6.0)


def test_plain_decoding_is_exactly_one_token_per_step() -> None:
    meter = StatisticsMeter(prompt_tokens=1)
    meter.first_token(FirstToken(5, reused=0))
    for token in range(7):
        meter.add(Step((token,), ("model",), rows=1))
    assert meter.statistics.tokens_per_step == 1.0


def test_time_is_counted_from_the_first_token_on() -> None:
    meter = StatisticsMeter(prompt_tokens=1)
    first = meter.first_token(FirstToken(5, reused=0))
    numbers = meter.add(Step((1,), ("model",), rows=1))
    assert (first.seconds, first.time_to_first_token > 0) == (0.0, True)
    assert numbers.time_to_first_token == first.time_to_first_token
    assert numbers.seconds > 0
