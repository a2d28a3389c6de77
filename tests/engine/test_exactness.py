"""The central promise: lookahead says exactly what plain decoding says, on every architecture."""

import pytest

from app.engine.lookahead import make_lookahead
from app.messages import Decoding, Sampling
from tests.engine.oracle import Draft, Oracle, branching, half_right, right, wrong
from tests.engine.replies import GREEDY, Zoo, numbers, reference, with_pool, write
from tests.engine.zoo import BRANCHING, WINDOW, Architecture

PROMPT = numbers(WINDOW + 18)
SHAPES = ((5, 4, 8), (15, 5, 15), (1, 2, 1), (0, 4, 8), (7, 3, 0), (3, 6, 2))
SAMPLINGS = (
    Sampling(temperature=0.7, seed=1),
    Sampling(temperature=1.3, top_k=20, seed=2),
    Sampling(temperature=1.0, top_p=0.8, seed=3),
    Sampling(temperature=2.0, min_p=0.05, repetition_penalty=1.2, seed=4),
    Sampling(repetition_penalty=1.3),
)

every_architecture = pytest.mark.parametrize("architecture", BRANCHING, ids=str)


@every_architecture
def test_lookahead_says_greedily_what_plain_says(zoo: Zoo, architecture: Architecture) -> None:
    runner = zoo.runner(architecture)
    expected = reference(runner, PROMPT)
    for window, ngram, guesses in SHAPES:
        runner.forget()
        said = write(runner, PROMPT, make_lookahead(Decoding("lookahead", window, ngram, guesses)))
        assert said.tokens == expected.tokens, (window, ngram, guesses)


@every_architecture
@pytest.mark.parametrize(
    "sampling", SAMPLINGS, ids=lambda sampling: f"T{sampling.temperature}-{sampling.seed}"
)
def test_lookahead_draws_what_plain_draws(zoo: Zoo, architecture: Architecture, sampling: Sampling) -> None:
    runner = zoo.runner(architecture)
    expected = reference(runner, PROMPT, sampling)
    runner.forget()
    assert write(runner, PROMPT, make_lookahead(Decoding("lookahead")), sampling).tokens == expected.tokens


@every_architecture
@pytest.mark.parametrize("sampling", (GREEDY, SAMPLINGS[0]), ids=("greedy", "sampled"))
@pytest.mark.parametrize("draft", (right, branching), ids=lambda draft: draft.__name__)
def test_right_drafts_are_accepted_several_at_once(
    zoo: Zoo, architecture: Architecture, draft: Draft, sampling: Sampling
) -> None:
    runner = zoo.runner(architecture)
    expected = reference(runner, PROMPT, sampling)
    runner.forget()
    oracle = Oracle((*PROMPT, *expected.tokens), (draft,))
    said = write(runner, PROMPT, with_pool(oracle, Decoding(window=3, ngram=7)), sampling)
    assert said.tokens == expected.tokens
    assert said.longest_run == 7, "six guesses and the model's own next token"
    assert len(said.steps) < len(said.tokens) / 5


@every_architecture
def test_wrong_drafts_change_nothing(zoo: Zoo, architecture: Architecture) -> None:
    runner = zoo.runner(architecture)
    expected = reference(runner, PROMPT)
    for drafts in ((wrong,), (half_right, wrong), (wrong, right, half_right, branching, wrong)):
        runner.forget()
        oracle = Oracle((*PROMPT, *expected.tokens), drafts)
        said = write(runner, PROMPT, with_pool(oracle, Decoding(window=4, ngram=5)))
        assert said.tokens == expected.tokens
