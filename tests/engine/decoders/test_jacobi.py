"""Jacobi iteration, worked out by hand on models that are rules."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from app.engine.decoders.jacobi import jacobi
from app.engine.decoders.plain import plain
from app.engine.runner.step import Step
from app.engine.sampling.sampling import make_sampler
from app.engine.text.stopping_criteria import StoppingCriteria
from app.values.messages import Sampling
from tests.engine.lookahead.scripted_runner import VOCABULARY, ScriptedRunner, text_after


def second_last_and_one_more(line: Sequence[int]) -> int:
    return (line[-2] + 1) % VOCABULARY


def decode(runner: ScriptedRunner, width: int, limit: int, tokens: Sequence[int] = (1, 1)) -> list[Step]:
    stopper = StoppingCriteria(frozenset(), limit, 1000)
    return list(jacobi(runner, list(tokens), make_sampler(Sampling()), stopper, width=width))


def test_the_example_of_the_essay() -> None:
    runner = ScriptedRunner([1], second_last_and_one_more)
    steps = decode(runner, width=3, limit=20)
    assert [block.tokens for block in runner.blocks[:3]] == [(1, 1, 1, 1), (2, 2, 2, 2), (3, 3, 3, 3)]
    assert [step.tokens for step in steps[:3]] == [(2,), (2, 3), (3, 4)]
    assert [step.origins for step in steps[:2]] == [("model",), ("window", "model")]
    assert all(len(step.tokens) == 2 for step in steps[1:-1])


def test_a_model_that_needs_no_context_is_written_a_window_at_a_time() -> None:
    runner = ScriptedRunner([0], lambda line: len(line) % 7)
    steps = decode(runner, width=4, limit=26, tokens=[0, 1])
    assert [len(step.tokens) for step in steps] == [1, 5, 1, 5, 1, 5, 1, 5, 1, 1]
    assert [token for step in steps for token in step.tokens] == text_after(
        [0, 1], 26, lambda line: len(line) % 7
    )


def test_near_the_end_and_the_horizon_only_part_of_the_window_is_fed() -> None:
    runner = ScriptedRunner([1], second_last_and_one_more, horizon=4)
    steps = decode(runner, width=8, limit=6)
    assert [block.positions for block in runner.blocks] == [(1, 2, 3), (2, 3), (4,), (5,), (6,)]
    assert [token for step in steps for token in step.tokens] == text_after(
        [1, 1], 6, second_last_and_one_more
    )


@given(
    prompt=st.lists(st.integers(0, 6), min_size=2, max_size=8),
    width=st.integers(0, 9),
    limit=st.integers(1, 25),
)
def test_whatever_the_window_the_text_is_plains(prompt: list[int], width: int, limit: int) -> None:
    def looks_far_back(line: Sequence[int]) -> int:
        return sum((place + 1) * token for place, token in enumerate(line)) % 7

    fast, slow = ScriptedRunner(prompt[:-1], looks_far_back), ScriptedRunner(prompt[:-1], looks_far_back)
    quick = decode(fast, width, limit, prompt)
    stopper = StoppingCriteria(frozenset(), limit, 1000)
    expected = list(plain(slow, list(prompt), make_sampler(Sampling()), stopper))
    assert [token for step in quick for token in step.tokens] == [
        token for step in expected for token in step.tokens
    ]
    assert fast.prefix == slow.prefix
