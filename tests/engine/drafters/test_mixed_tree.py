"""A draft model is joined with the pool where it helps, and only listened to where it does not."""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from app.engine.drafters.draft_model import DraftModel
from app.engine.drafters.mixed_tree import DraftModelSource
from app.engine.lookahead.acceptance_estimator import AcceptanceEstimator
from app.engine.lookahead.context_table import ContextTable
from app.engine.lookahead.draft_model_budget import DraftModelBudget
from app.engine.lookahead.draft_tree import DraftTree
from app.engine.lookahead.drafter import Drafter, DraftSources, Edge, grow

VOCABULARY, ROWS, DEPTH, FLOOR = 50, 5, 8, 1e-3
TEXT = [(7 * place + place // 11) % VOCABULARY for place in range(400)]
SOURCES = DraftSources(ContextTable(VOCABULARY, 4), AcceptanceEstimator())

Expect = Callable[[int], int]
"""The token that is expected at a position."""


class ScriptedReader:
    """Sure of one token at each position."""

    context, vocabulary = 10_000, VOCABULARY

    def __init__(self, expect: Expect) -> None:
        self._expect = expect

    def read(self, tokens: Sequence[int], known: int) -> Tensor:
        assert known < len(tokens)
        logits = torch.linspace(0.1, 0.0, VOCABULARY)
        logits[self._expect(len(tokens))] = 20.0
        return logits

    def forget(self) -> None:
        pass


class ScriptedPool:
    """Expects one token at each position, with one chance."""

    def __init__(self, chance: float, expect: Expect, sources: DraftSources) -> None:
        self._chance, self._expect, self._sources = chance, expect, sources

    def draft(self, context: Sequence[int], rows: int, depth: int, floor: float) -> DraftTree:
        def find(tree: DraftTree, node: int, near: Sequence[int], least: float) -> list[Edge]:
            del least
            return self.edges(near, len(context) + tree.depths[node])

        return grow(self._sources, context, rows, depth, floor, find)

    def edges(self, context: Sequence[int], position: int, is_current: bool = False) -> list[Edge]:
        del context, is_current
        return [(self._chance, self._expect(position), 0)] if self._chance else []

    def observe(self, context: Sequence[int], accepted: Sequence[int]) -> None:
        pass

    def expect(self, contexts: NDArray[np.int64]) -> None:
        pass

    def learn_successors(
        self, contexts: NDArray[np.int64], ids: NDArray[np.int64], logits: NDArray[np.float32]
    ) -> None:
        pass


def right(position: int) -> int:
    return TEXT[position % len(TEXT)]


def wrong(position: int) -> int:
    return (TEXT[position % len(TEXT)] + 1) % VOCABULARY


def right_in_one_place_of_four(position: int) -> int:
    return right(position) if position % 4 == 0 else wrong(position)


def source_of(expect: Expect) -> DraftModelSource:
    return DraftModelSource(
        DraftModel(ScriptedReader(expect), "draft", VOCABULARY), DraftModelBudget(1.0, 1.0)
    )


def steps_of(drafter: Drafter, tokens: int = 300) -> int:
    """Steps that write so many tokens of the text, with a tree of equally many rows each."""
    text, steps = TEXT[:10], 0
    while len(text) < 10 + tokens:
        tree = drafter.draft(text, ROWS, DEPTH, FLOOR)
        node, steps = 0, steps + 1
        while (below := tree.child(node, right(len(text)))) is not None:
            text, node = [*text, right(len(text))], below
        text = [*text, right(len(text))]
    return steps


@pytest.mark.parametrize("expect", [wrong, right_in_one_place_of_four], ids=["never", "seldom"])
@pytest.mark.parametrize("chance", [0.9, 0.5, 0.2])
def test_with_a_bad_draft_model_hardly_a_step_is_lost(expect: Expect, chance: float) -> None:
    make = partial(ScriptedPool, chance, right)
    source, alone = source_of(expect), steps_of(make(SOURCES))
    source.budget.expect(0.0)  # so the trial said
    assert steps_of(source.drafters(make)(SOURCES)) <= alone + 2


def test_what_was_learned_of_it_in_one_reply_holds_in_the_next() -> None:
    source, make = source_of(wrong), partial(ScriptedPool, 0.9, right)
    steps_of(source.drafters(make)(SOURCES))
    assert steps_of(source.drafters(make)(SOURCES)) == steps_of(make(SOURCES))


@pytest.mark.parametrize("pool", [wrong, right_in_one_place_of_four], ids=["never", "seldom"])
def test_a_good_draft_model_writes_what_the_pool_cannot(pool: Expect) -> None:
    make = partial(ScriptedPool, 0.3, pool)
    steps = steps_of(source_of(right).drafters(make)(SOURCES))
    assert steps < 0.4 * steps_of(make(SOURCES))


def test_what_was_lost_is_counted_when_the_text_has_left_the_pools_tree() -> None:
    source = source_of(wrong)
    source.budget.expect(0.5)
    drafter = source.drafters(partial(ScriptedPool, 0.2, right))(SOURCES)
    drafter.draft(TEXT[:10], 4, DEPTH, FLOOR)
    gains = []
    for end in (11, 12, 13, 14):
        drafter.draft(TEXT[:end], 1, DEPTH, FLOOR)
        gains.append(source.budget.gain)
    assert gains[:3] == [0.5] * 3, "its three guesses may all be right"
    assert gains[3] < 0, "three tokens, not the one that the step would have shown"


def test_a_hotter_text_begins_with_what_was_learned_of_a_cooler_one() -> None:
    source = source_of(wrong)
    steps_of(source.drafters(partial(ScriptedPool, 0.9, right))(SOURCES))
    assert source.chances(0.8).learned == source.chances(0.0).learned
