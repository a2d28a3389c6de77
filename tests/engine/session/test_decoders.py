"""Every name has its decoder."""

from typing import get_args

import pytest

from app.engine.lookahead.plain import plain
from app.engine.lookahead.prompt_lookup import prompt_lookup
from app.engine.sampling.sampling import make_sampler
from app.engine.session.decoders import make_decoder
from app.engine.text.stopping import StoppingCriteria
from app.values.messages import DecoderName, Decoding, Sampling
from tests.engine.lookahead.scripted_runner import ScriptedRunner, text_after


def test_plain_and_prompt_lookup_need_no_settings() -> None:
    assert make_decoder(Decoding("plain")) is plain
    assert make_decoder(Decoding("prompt-lookup")) is prompt_lookup


@pytest.mark.parametrize("name", get_args(DecoderName))
def test_every_decoder_says_what_the_model_says(name: DecoderName) -> None:
    stopper = StoppingCriteria(frozenset(), 30, 1000, (), decode=str)
    steps = list(
        make_decoder(Decoding(name))(ScriptedRunner([40]), [40, 4], make_sampler(Sampling()), stopper)
    )
    assert [token for step in steps for token in step.tokens] == text_after([40, 4], 30)
    assert steps[-1].reason == "max_tokens"


@pytest.mark.parametrize("name", get_args(DecoderName))
def test_no_decoder_feeds_more_rows_than_the_runner_takes(name: DecoderName) -> None:
    runner, stopper = ScriptedRunner([40]), StoppingCriteria(frozenset(), 60, 1000, (), decode=str)
    runner.same_text_buckets = (1, 4)
    steps = list(make_decoder(Decoding(name, window=9))(runner, [40, 4], make_sampler(Sampling()), stopper))
    assert [token for step in steps for token in step.tokens] == text_after([40, 4], 60)
    assert max(map(len, runner.blocks)) <= 4


@pytest.mark.parametrize("window", [1, 3, 4, 5])
def test_no_step_reads_more_rows_than_the_runner_takes(window: int) -> None:
    """With N = 2 the window's top row begins with the current token, whose logits are read once for each branch."""
    runner, stopper = ScriptedRunner([40]), StoppingCriteria(frozenset(), 60, 1000, (), decode=str)
    runner.same_text_buckets = (1, 4)
    decoder = make_decoder(Decoding("lookahead", window, ngram=2, guesses=9))
    steps = list(decoder(runner, [40, 4], make_sampler(Sampling()), stopper))
    assert [token for step in steps for token in step.tokens] == text_after([40, 4], 60)
    assert max(len(block.wanted) for block in runner.blocks) == 4
    assert max(map(len, runner.blocks)) <= 4


@pytest.mark.parametrize(("name", "rows"), [("plain", 1), ("jacobi", 4)])
def test_the_window_is_as_wide_as_asked(name: DecoderName, rows: int) -> None:
    runner, stopper = ScriptedRunner([40]), StoppingCriteria(frozenset(), 30, 1000, (), decode=str)
    next(make_decoder(Decoding(name, window=3))(runner, [40, 4], make_sampler(Sampling()), stopper))
    assert len(runner.blocks[0]) == rows
