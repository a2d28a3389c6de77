"""Every name has its decoder, and log probabilities come with the tokens that were chosen."""

from contextlib import nullcontext
from typing import get_args

import pytest
import torch

from app.engine.runner.step import Step
from app.engine.sampling.sampling import make_sampler
from app.engine.session.reply_events import LogprobsRecorder, make_decoder
from app.engine.text.reply_text import StoppingCriteria
from app.values.messages import DecoderName, Decoding, Piece, Sampling, Statistics
from tests.engine.lookahead.scripted_runner import ScriptedRunner, text_after
from tests.engine.simulated_graphs import Waits

VOCABULARY = 12
PROMPT = [1, 1, 2]


def decoded(decoding: Decoding, runner: ScriptedRunner, limit: int) -> list[Step]:
    """The steps of a reply, which says what the model says."""
    stopper = StoppingCriteria(frozenset(), limit, 1000, (), decode=str)
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


def piece(tokens: list[int]) -> Piece:
    return Piece("", tuple(tokens), ("model",) * len(tokens), Statistics())


@pytest.mark.parametrize("sampling", [Sampling(), Sampling(temperature=0.8, seed=5)])
def test_recording_changes_no_choice_and_tells_the_models_own_probabilities(sampling: Sampling) -> None:
    rows = torch.randn(3, VOCABULARY, generator=torch.Generator().manual_seed(4))
    sampler = make_sampler(sampling)
    recorder = LogprobsRecorder(sampler, 2, len(PROMPT), lambda ids: tuple(f"t{token}" for token in ids))
    choices, plain_choices = recorder(rows), sampler(rows)
    chosen = [plain_choices.choose(row, [*PROMPT, *[0] * row]) for row in range(3)]
    # Whoever asks for a number waits for the device; a list of them is one copy. Draws ask for each of their own.
    with Waits() if sampling.temperature == 0 else nullcontext():
        assert [choices.choose(row, [*PROMPT, *[0] * row]) for row in range(3)] == chosen
    pieces = recorder.added_to(piece(chosen[:1])), recorder.added_to(piece(chosen[1:]))
    found = [one for each in pieces for one in each.logprobs]
    for row, (token, logprobs) in enumerate(zip(chosen, found, strict=True)):
        expected = rows[row].log_softmax(dim=-1)
        assert logprobs.chosen.text == f"t{token}"
        assert logprobs.chosen.logprob == pytest.approx(float(expected[token]))
        best = expected.topk(2).indices.tolist()
        assert [one.text for one in logprobs.likeliest] == [f"t{one}" for one in best]
