"""A tree is the best part of the tree of all guesses, whatever the chances are."""

from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.engine.lookahead.acceptance_estimator import NUM_CELLS, AcceptanceEstimator
from app.engine.lookahead.drafter import SUREST
from app.engine.lookahead.pool import Pool
from tests.engine.lookahead.pools import pool_of, says

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
