"""Every decoder pictures its steps truly: what was fed, which path the model took, what it wanted instead."""

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.engine.decoders import make_decoder
from app.engine.decoders.lookahead_decoder import ReplyContext
from app.engine.runner.step import Decoder, Step
from app.engine.sampling.sampling import make_sampler
from app.engine.text.stopping_criteria import StoppingCriteria
from app.values.messages import Decoding, Sampling
from app.values.reply_statistics import StepTrace
from tests.engine.lookahead.deciding import START, decode, ends, fixed
from tests.engine.lookahead.scripted_pool import ScriptedPool
from tests.engine.lookahead.scripted_runner import ScriptedRunner, triple_plus_one

DECODINGS = [
    Decoding("plain"),
    Decoding("prompt-lookup"),
    Decoding("jacobi", window=3),
    Decoding("lookahead", window=3, ngram=3, guesses=3),
    Decoding("auto", rows=12),
]


def written(
    decoding: Decoding, prompt: Sequence[int], stopper: StoppingCriteria, sampling: Sampling | None = None
) -> tuple[list[Step], ScriptedRunner]:
    decoder: Decoder = make_decoder(decoding, ReplyContext())
    runner = ScriptedRunner(prompt[:-1], triple_plus_one)
    return list(decoder(runner, list(prompt), make_sampler(sampling or Sampling()), stopper)), runner


def test_the_example_of_the_essay() -> None:
    """The model says 13 behind 4, 40 behind 13 and 24 behind 40; of the draft 13 1 and 5 it takes 13."""
    step = next(decode(ScriptedRunner([40]), fixed(), ScriptedPool([(13, 1), (5,)])))
    said = tuple(map(triple_plus_one, ([4], [13], [1], [5])))
    origins = ("model", "prompt", "prompt", "prompt")
    assert step.trace == StepTrace((4, 13, 1, 5), (-1, 0, 1, 0), origins, said, accepted=(0, 1))
    assert (said[0], said[1]) == step.tokens == (13, 40)


def test_the_window_is_pictured_as_it_was_fed_with_the_current_token_in_its_place() -> None:
    steps = decode(ScriptedRunner([40]), fixed(window=2, ngram=3), ScriptedPool([(13, 40), (5,)]))
    first, second = next(steps).trace, next(steps).trace
    assert first.window == ((4, 40), (40, 4))
    assert second.window == ((24, 4), (24, 13))


def test_jacobis_window_is_the_line_that_it_fed() -> None:
    steps, runner = written(DECODINGS[2], [40, 4], ends(6))
    assert steps[0].trace.window == ((4, 4, 4, 4),) == (runner.blocks[0].tokens,)


def test_a_step_that_ends_the_reply_keeps_only_the_rows_before_its_end() -> None:
    step = next(decode(ScriptedRunner([40]), fixed(), ScriptedPool([(13, 40, 24)]), ends(eos=[40])))
    assert (step.tokens, step.trace.accepted) == ((13, 40), (0, 1))


@pytest.mark.parametrize("decoding", DECODINGS, ids=lambda decoding: decoding.decoder)
@given(prompt=st.lists(st.integers(0, 6), min_size=2, max_size=8), limit=st.integers(1, 25))
def test_every_picture_tells_the_step(decoding: Decoding, prompt: list[int], limit: int) -> None:
    steps, runner = written(decoding, prompt, ends(limit))
    text = list(prompt)
    for step, block in zip(steps, runner.blocks, strict=True):
        trace = step.trace
        assert block.tokens[: len(trace.tokens)] == trace.tokens
        assert trace.tokens[0] == text[-1]
        assert tuple(trace.predicted[row] for row in trace.accepted) == step.tokens
        assert all(trace.parents[below] == row for row, below in pairwise(trace.accepted))
        drafted = tuple(trace.origins[row] for row in trace.accepted[1:])
        assert drafted == step.origins[: len(drafted)]
        text += step.tokens


def test_of_drawn_text_the_picture_shows_what_was_likeliest() -> None:
    steps, _ = written(Decoding("plain"), START, ends(8), Sampling(temperature=50.0))
    assert all(step.trace.predicted == (triple_plus_one(step.trace.tokens),) for step in steps)
    assert any(step.trace.predicted != step.tokens for step in steps)
