"""A draft model's cache follows the text and its own guesses, and says what a model that was just opened says."""

import random
from dataclasses import replace

import pytest
import torch

from app.engine.drafters.draft_model import (
    FED_AS_STEP,
    PROPOSALS,
    DraftModel,
    RunnerSequenceReader,
    proposals,
)
from app.engine.runner.runner import BlockRunner
from app.engine.sampling.sampling import draw
from app.values.messages import Sampling
from tests.engine.architectures import LLAMA, VOCABULARY
from tests.engine.replies import Zoo, numbers

GREEDY, SAMPLED = Sampling(), Sampling(0.9, top_k=40, top_p=0.95, repetition_penalty=1.2, seed=6)
TEXT = list(numbers(40, seed=8))


@pytest.fixture
def model(zoo: Zoo) -> DraftModel:
    return opened(zoo)


def opened(zoo: Zoo) -> DraftModel:
    runner = zoo.runner(LLAMA)
    assert isinstance(runner, BlockRunner)
    runner.forget()
    return DraftModel(RunnerSequenceReader(runner), "llama", VOCABULARY)


@pytest.mark.parametrize("sampling", [GREEDY, SAMPLED], ids=["greedy", "sampled"])
def test_whatever_was_asked_before_the_answer_is_that_of_a_fresh_model(zoo: Zoo, sampling: Sampling) -> None:
    generator = random.Random(3)
    asked = list[tuple[list[int], list[int]]]()
    text = list(TEXT)
    for _ in range(6):
        lines = [[generator.randrange(VOCABULARY) for _ in range(generator.randrange(5))] for _ in range(4)]
        asked += [(list(text), line) for line in lines]
        text += [generator.randrange(VOCABULARY) for _ in range(generator.choice((1, 2, FED_AS_STEP + 4)))]
    asked.append((TEXT[:7], [1]))  # another chat
    model = opened(zoo)
    warm = []
    for known, line in asked:
        model.follow(known)
        warm.append(model.propose(line, sampling))
    for (known, line), found in zip(asked, warm, strict=True):
        fresh = opened(zoo)
        fresh.follow(known)
        assert fresh.propose(line, sampling) == found


def test_it_reads_only_what_was_committed_since(model: DraftModel) -> None:
    assert model.follow(TEXT) == len(TEXT)
    model.propose((), GREEDY)
    model.propose((3, 5), GREEDY)
    assert model.follow([*TEXT, 3, 4]) == 1, "3 was fed as a guess"
    assert model.follow([*TEXT[:5], (TEXT[5] + 1) % VOCABULARY]) == 1


def test_where_it_has_no_positions_left_it_says_nothing(model: DraftModel) -> None:
    long = [1] * model.context
    model.follow(long)
    assert model.propose((2,), GREEDY) == []


def test_a_token_that_it_has_no_embedding_for_is_not_fed(model: DraftModel) -> None:
    model.follow([*TEXT, VOCABULARY])
    assert model.propose((), GREEDY) == []
    model.follow(TEXT)
    assert model.propose((VOCABULARY,), GREEDY) == []
    assert model.propose((), GREEDY)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("temperature", [0.0, 0.7, 1.3])
def test_the_first_one_is_what_the_sampler_would_draw(seed: int, temperature: float) -> None:
    logits = torch.randn(200, generator=torch.Generator().manual_seed(seed)) * 3
    sampling = replace(SAMPLED, temperature=temperature, seed=seed)
    found = proposals(logits, TEXT, sampling)
    assert found[0][0] == draw(logits, TEXT, sampling)
    assert len(found) <= PROPOSALS
    assert found[0][1] >= 8 > max((gap for _, gap in found[1:]), default=0)
