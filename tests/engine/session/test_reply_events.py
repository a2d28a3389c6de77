"""Every name has its decoder, which reads no more rows than the runner takes."""

from typing import get_args

import pytest

from app.engine.decoders import make_decoder
from app.engine.runner.step import Step
from app.engine.sampling.sampling import make_sampler
from app.engine.text.stopping_criteria import StoppingCriteria
from app.values.messages import DecoderName, Decoding, Sampling
from tests.engine.lookahead.scripted_runner import ScriptedRunner, text_after


def decoded(decoding: Decoding, runner: ScriptedRunner, limit: int) -> list[Step]:
    """The steps of a reply, which says what the model says."""
    stopper = StoppingCriteria(frozenset(), limit, 1000)
    steps = list(make_decoder(decoding)(runner, [40, 4], make_sampler(Sampling()), stopper))
    assert [token for step in steps for token in step.tokens] == text_after([40, 4], limit)
    assert steps[-1].reason == "max_tokens"
    return steps


@pytest.mark.parametrize("name", get_args(DecoderName))
def test_every_decoder_says_what_the_model_says_in_no_more_rows_than_the_runner_takes(
    name: DecoderName,
) -> None:
    decoded(Decoding(name), ScriptedRunner([40]), 30)
    runner = ScriptedRunner([40])
    runner.same_text_buckets = (1, 4)
    decoded(Decoding(name, window=9), runner, 60)
    assert max(map(len, runner.blocks)) <= 4


@pytest.mark.parametrize("window", [1, 3, 4, 5])
def test_no_step_reads_more_rows_than_the_runner_takes(window: int) -> None:
    """With N = 2 the window's top row begins with the current token, whose logits are read once for each branch."""
    runner = ScriptedRunner([40])
    runner.same_text_buckets = (1, 4)
    decoded(Decoding("lookahead", window, ngram=2, guesses=9), runner, 60)
    assert max(len(block.wanted) for block in runner.blocks) == 4
    assert max(map(len, runner.blocks)) <= 4


@pytest.mark.parametrize(("name", "rows"), [("plain", 1), ("jacobi", 4)])
def test_the_window_is_as_wide_as_asked(name: DecoderName, rows: int) -> None:
    runner = ScriptedRunner([40])
    decoded(Decoding(name, window=3), runner, 30)
    assert len(runner.blocks[0]) == rows
