"""The central promise: lookahead says exactly what plain decoding says, on every architecture."""

from collections.abc import Mapping
from typing import Any

import pytest

from app.engine.lookahead import make_lookahead
from app.values.messages import Decoding, Sampling
from tests.engine.architectures import BRANCHING, IN_DEPTH, WINDOW, Architecture
from tests.engine.oracle import Draft, Oracle, branching, half_right, right, wrong
from tests.engine.replies import GREEDY, Zoo, numbers, reference, with_pool, write
from tests.tiers import named, pairwise

PROMPT = numbers(WINDOW + 18)
SHAPES = ((5, 4, 8), (15, 5, 15), (1, 2, 1), (0, 4, 8), (7, 3, 0), (3, 6, 2))
SAMPLINGS = {
    "greedy": GREEDY,
    "T0.7-1": Sampling(temperature=0.7, seed=1),
    "T1.3-2": Sampling(temperature=1.3, top_k=20, seed=2),
    "T1.0-3": Sampling(temperature=1.0, top_p=0.8, seed=3),
    "T2.0-4": Sampling(temperature=2.0, min_p=0.05, repetition_penalty=1.2, seed=4),
    "T0.0-0": Sampling(repetition_penalty=1.3),
}
DRAFTS = {
    "wrong": (wrong,),
    "half right": (half_right, wrong),
    "mixed": (wrong, right, half_right, branching, wrong),
}


def for_architectures(**others: Mapping[str, Any]) -> pytest.MarkDecorator:
    """Every architecture once, one of each kind with every value; with --thorough the whole product."""
    return pairwise(architecture=named(BRANCHING), **others, deep=IN_DEPTH)


@for_architectures(shape={f"W{w}-N{n}-G{g}": (w, n, g) for w, n, g in SHAPES}, sampling=SAMPLINGS)
def test_lookahead_says_what_plain_says(
    zoo: Zoo, architecture: Architecture, shape: tuple[int, int, int], sampling: Sampling
) -> None:
    runner = zoo.runner(architecture)
    expected = reference(runner, PROMPT, sampling)
    said = write(runner, PROMPT, make_lookahead(Decoding("lookahead", *shape)), sampling)
    assert said.tokens == expected.tokens


@for_architectures(
    draft={"right": right, "branching": branching},
    sampling={name: SAMPLINGS[name] for name in ("greedy", "T0.7-1")},
)
def test_right_drafts_are_accepted_several_at_once(
    zoo: Zoo, architecture: Architecture, draft: Draft, sampling: Sampling
) -> None:
    runner = zoo.runner(architecture)
    expected = reference(runner, PROMPT, sampling)
    oracle = Oracle((*PROMPT, *expected.tokens), (draft,))
    said = write(runner, PROMPT, with_pool(oracle, Decoding(window=3, ngram=7)), sampling)
    assert said.tokens == expected.tokens
    assert said.longest_run == 7, "six guesses and the model's own next token"
    assert len(said.steps) < len(said.tokens) / 5


@for_architectures(drafts=DRAFTS)
def test_wrong_drafts_change_nothing(zoo: Zoo, architecture: Architecture, drafts: tuple[Draft, ...]) -> None:
    runner = zoo.runner(architecture)
    expected = reference(runner, PROMPT)
    oracle = Oracle((*PROMPT, *expected.tokens), drafts)
    said = write(runner, PROMPT, with_pool(oracle, Decoding(window=4, ngram=5)))
    assert said.tokens == expected.tokens
