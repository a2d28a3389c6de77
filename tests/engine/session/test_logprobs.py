"""Log probabilities come with the tokens that were chosen, and those of a prompt are transformers' own."""

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import pytest
import torch

from app.engine.decoders.plain import plain
from app.engine.sampling.sampling import make_sampler
from app.engine.session.logprobs import SCORED_ROWS, LogprobsRecorder, prompt_logprobs
from app.engine.session.reply_events import never_stop
from app.values.messages import Piece, Sampling, Statistics
from tests.engine.architectures import LLAMA, Architecture
from tests.engine.recurrent_architectures import RECURRENT
from tests.engine.replies import Zoo, numbers, says_plainly, write
from tests.engine.simulated_graphs import Waits

VOCABULARY = 12
PROMPT = [1, 1, 2]
KINDS = [LLAMA, *(one for one in RECURRENT if one.name in ("lfm2", "mamba"))]
"""Models that are fed blocks, chains and single rows."""


def spelled(ids: Sequence[int]) -> tuple[bytes, ...]:
    return tuple(b"t%d" % token for token in ids)


def piece(tokens: list[int]) -> Piece:
    return Piece("", tuple(tokens), ("model",) * len(tokens), Statistics())


@pytest.mark.parametrize("sampling", [Sampling(), Sampling(temperature=0.8, seed=5)])
def test_recording_changes_no_choice_and_tells_the_models_own_probabilities(sampling: Sampling) -> None:
    rows = torch.randn(3, VOCABULARY, generator=torch.Generator().manual_seed(4))
    sampler = make_sampler(sampling)
    recorder = LogprobsRecorder(sampler, 2, len(PROMPT), spelled)
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


@pytest.mark.parametrize("architecture", KINDS, ids=str)
def test_a_prompts_log_probabilities_are_those_of_transformers(zoo: Zoo, architecture: Architecture) -> None:
    prompt = numbers(SCORED_ROWS + 30)
    runner = zoo.runner(architecture)
    events = list(prompt_logprobs(runner, prompt, 1, spelled, never_stop))
    assert events[-1].done == events[-1].total == len(prompt)
    first, *found = [one for event in events for one in event.logprobs]
    assert first.chosen.spelled == b"t%d" % prompt[0]
    model: Any = architecture.make()
    model.set_attn_implementation("eager")
    with torch.inference_mode():
        expected = model(torch.tensor([prompt]), use_cache=False).logits[0].log_softmax(dim=-1)
    for place, one in enumerate(found):
        token = prompt[place + 1]
        assert one.chosen.spelled == b"t%d" % token
        assert one.chosen.logprob == pytest.approx(float(expected[place, token]), abs=1e-4)
        assert one.likeliest[0].logprob == pytest.approx(float(expected[place].max()), abs=1e-4)


@pytest.mark.parametrize("architecture", KINDS, ids=str)
def test_a_reply_after_log_probabilities_of_its_prompt_is_the_same(
    zoo: Zoo, architecture: Architecture
) -> None:
    prompt = numbers(40)
    runner = zoo.runner(architecture)
    reply = says_plainly(runner, prompt, limit=12)
    runner.forget()
    list(prompt_logprobs(runner, prompt, 0, spelled, never_stop))
    assert write(runner, prompt, plain, limit=12).tokens == reply.tokens


def test_a_client_that_leaves_ends_the_reading(zoo: Zoo) -> None:
    runner = zoo.runner(KINDS[0])
    events = list(prompt_logprobs(runner, numbers(SCORED_ROWS * 3), 0, spelled, lambda: True))
    assert {event.done for event in events} == {1}
