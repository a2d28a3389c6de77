"""A tree is the best part of the tree of all guesses, whatever the chances are."""

from array import array

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.engine.block.context_entries import pack_successors
from app.engine.lookahead.acceptance_estimator import NUM_CELLS, AcceptanceEstimator
from app.engine.lookahead.context_table import ContextTable
from app.engine.lookahead.drafter import SUREST, alternatives
from app.engine.lookahead.ngram_pool import Pool
from tests.engine.lookahead.drafting import pool_of, says

BEFORE, CURRENT = [1, 2, 3, 4], 5


def table_after(context: list[int], *tokens: int) -> ContextTable:
    table = ContextTable(64, 12)
    logits = np.array([[0.0, *(-3.0 - place for place in range(len(tokens) - 1))]], dtype=np.float32)
    table.learn_successors(np.array([context]), pack_successors(np.array([tokens]), logits))
    return table


def test_they_are_what_the_row_that_chose_the_current_token_held_likely() -> None:
    table = table_after(BEFORE, CURRENT, 6, 7)
    assert alternatives(table, [*BEFORE, CURRENT]) == {6: 4, 7: 5}, "3 and 4 logits behind"
    assert alternatives(table, [9, *BEFORE, 7]) == {CURRENT: 0, 6: 4}, "whatever was drawn in the end"


def test_another_context_has_no_such_row() -> None:
    table = table_after(BEFORE, CURRENT, 6, 7)
    assert alternatives(table, [9, 2, 3, 4, CURRENT]) == {}, "only 3 of its tokens are known"
    assert alternatives(table, BEFORE) == alternatives(table, [CURRENT]) == {}


def test_they_are_drafted_behind_the_current_token_only_and_counted() -> None:
    pool = pool_of()
    says(pool, BEFORE, CURRENT, 6, 7)
    says(pool, [*BEFORE[1:], CURRENT], 8, 9)
    tree = pool.draft([*BEFORE, CURRENT], 100, 4, 0.0)
    assert set(tree.tokens[1:]) == {8, 9, 6, 7}
    assert {tree.parents[node] for node, token in enumerate(tree.tokens) if token in (6, 7)} == {0}
    before = pool.draft([*BEFORE, CURRENT], 100, 1, 0.0)
    for _ in range(5):
        pool.observe([*BEFORE, CURRENT], [6])
    after = pool.draft([*BEFORE, CURRENT], 100, 1, 0.0)
    chance = {tree: tree.reaches[tree.tokens.index(6)] for tree in (before, after)}
    assert chance[after] > chance[before]


def test_a_token_that_is_likely_here_as_well_counts_as_successor() -> None:
    pool = pool_of()
    says(pool, BEFORE, CURRENT, 6)
    says(pool, [*BEFORE[1:], CURRENT], 6, 9)
    tree = pool.draft([*BEFORE, CURRENT], 100, 1, 0.0)
    alone = pool.draft([0, *BEFORE[1:], CURRENT], 100, 1, 0.0)
    assert (tree.tokens, tree.reaches) == (alone.tokens, alone.reaches)


TEXTS = st.lists(st.lists(st.integers(0, 5), min_size=1, max_size=14), min_size=1, max_size=6)
CONTEXTS = st.lists(st.integers(0, 5), min_size=1, max_size=6)


def varied(texts: list[list[int]], rates: list[float], trust: float) -> Pool:
    """A pool of texts and successors, with made-up chances."""
    estimator = AcceptanceEstimator()
    estimator.rates = array("d", [rates[cell % len(rates)] for cell in range(NUM_CELLS)])
    estimator.trust = trust
    pool = pool_of(*texts, estimator=estimator, special={5})
    for text in texts:
        says(pool, text, 3, 1, 4)
    return pool


def every_reach(pool: Pool, trust: float, context: list[int], depth: int, reach: float) -> list[float]:
    """The reach of every node of the unbounded tree, looked up one by one."""
    found = []
    for chance, token, _ in pool.edges(context[-4:], len(context)) if depth else []:
        below = reach * min(chance * trust, SUREST)
        found.append(below)
        if token != 5:
            found += every_reach(pool, trust, [*context, token], depth - 1, below)
    return found


@given(
    texts=TEXTS,
    context=CONTEXTS,
    rates=st.lists(st.floats(0.01, 1.0), min_size=1, max_size=7),
    trust=st.floats(0.05, 1.1),
    rows=st.integers(1, 30),
    depth=st.integers(1, 3),
    floor=st.sampled_from([0.0, 0.01, 0.2]),
)
def test_a_tree_holds_the_likeliest_nodes_there_are_best_first(
    texts: list[list[int]],
    context: list[int],
    rates: list[float],
    trust: float,
    rows: int,
    depth: int,
    floor: float,
) -> None:
    pool = varied(texts, rates, trust)
    tree = pool.draft(context, rows, depth, floor)
    assert tree.reaches == sorted(tree.reaches, reverse=True)
    assert max(tree.depths) <= depth
    best = sorted(every_reach(pool, trust, context, depth, 1.0), reverse=True)
    expected = [reach for reach in best[: rows - 1] if reach >= floor]
    assert tree.reaches[1:] == pytest.approx(expected)
    for node in range(1, len(tree)):
        assert tree.reaches[node] <= tree.reaches[tree.parents[node]]
        assert tree.tokens[tree.parents[node]] != 5 or tree.parents[node] == 0
