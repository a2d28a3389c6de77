"""What was likely in place of the current token is a guess of the next one."""

import numpy as np

from app.engine.block.entries import pack_successors
from app.engine.lookahead.context_table import ContextTable
from app.engine.lookahead.drafter import alternatives
from tests.engine.lookahead.pools import pool_of, says

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
