"""The drafter in C finds the guesses, grows the trees and learns what the one in Python does, to the last bit."""

from array import array
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.engine.block.context_entries import SOURCES, pack_follower, pack_successors
from app.engine.lookahead.acceptance_estimator import NUM_CELLS, AcceptanceEstimator
from app.engine.lookahead.context_table import ContextTable, last_tokens
from app.engine.lookahead.draft_tree import DraftTree
from app.engine.lookahead.drafter import DraftSources, PythonDrafter
from app.engine.lookahead.native_drafter import NativeDrafter, best_drafter, compiled_drafter
from app.engine.sampling.penalties import AllowedTokens
from app.values.messages import MAX_ROWS, Origin, Sampling

needs_compiler = pytest.mark.skipif(compiled_drafter().library is None, reason="there is no C compiler here")
VOCABULARY, SPECIAL = 24, frozenset({3, 23})

TOKENS = st.integers(0, VOCABULARY - 1)
TEXTS = st.lists(TOKENS, min_size=1, max_size=12)
SAMPLINGS = st.builds(
    Sampling,
    temperature=st.sampled_from([0.0, 0.3, 1.0, 2.5]),
    top_k=st.sampled_from([0, 1, 3, 40, 2**63]),
    top_p=st.sampled_from([1.0, 0.9, 0.4]),
    min_p=st.sampled_from([0.0, 0.02, 0.3]),
    seed=st.integers(0, 2**63 - 1),
)
LEARNED = st.lists(
    st.tuples(
        TEXTS,
        st.sampled_from(SOURCES),
        st.integers(0, 40),
        st.lists(TOKENS, max_size=8, unique=True),
        st.floats(0, 12),
    ),
    min_size=1,
    max_size=12,
)
"""A text, its source, the reply that it is from, what the model held likely behind it, and by which lead."""

Taught = Sequence[tuple[list[int], Origin, int, list[int], float]]


def table_of(taught: Taught, bits: int = 10) -> ContextTable:
    table = ContextTable(VOCABULARY, bits)
    for text, source, reply, likely, lead in taught:
        for end in range(1, len(text)):
            table.learn_follower(text[:end], pack_follower(text[end], source, reply))
        if likely:
            logits = np.array([[-lead * place**1.5 / 4 for place in range(len(likely))]], dtype=np.float32)
            table.learn_successors(np.array([last_tokens(text)]), pack_successors(np.array([likely]), logits))
    return table


def estimator_of(rates: Sequence[float], trust: float) -> AcceptanceEstimator:
    """Chances that come again and again, so that some are equal."""
    estimator = AcceptanceEstimator()
    if rates:
        estimator.rates = array("d", [rates[cell % len(rates)] for cell in range(NUM_CELLS)])
    estimator.trust = trust
    return estimator


def both(sources: DraftSources) -> tuple[PythonDrafter, NativeDrafter]:
    library = compiled_drafter().library
    assert library is not None
    return PythonDrafter(sources), NativeDrafter(library, sources)


def whole(tree: DraftTree) -> tuple[object, ...]:
    children = [tree.child(parent, token) for parent, token in zip(tree.parents, tree.tokens, strict=True)]
    return tree.tokens, tree.parents, tree.depths, tree.origins, tree.reaches, children[1:]


@needs_compiler
@given(
    taught=LEARNED,
    anywhere=st.lists(TOKENS, max_size=8, unique=True),
    context=TEXTS,
    sampling=SAMPLINGS,
    rates=st.lists(st.floats(0.001, 1.0), max_size=7),
    trust=st.floats(0.05, 1.1),
    rows=st.integers(0, 90),
    depth=st.integers(-1, 12),
    floor=st.sampled_from([0.0, 1e-4, 0.02, 0.3]),
    branches=st.sampled_from([1, 2, MAX_ROWS]),
)
def test_it_grows_the_tree_that_python_grows(
    taught: Taught,
    anywhere: list[int],
    context: list[int],
    sampling: Sampling,
    rates: list[float],
    trust: float,
    rows: int,
    depth: int,
    floor: float,
    branches: int,
) -> None:
    table = table_of(taught)
    if anywhere:
        logits = -np.arange(len(anywhere), dtype=np.float32)
        table.set_anywhere(pack_successors(np.array([anywhere]), logits[None])[0])
    sources = DraftSources(table, estimator_of(rates, trust), SPECIAL, sampling, 33, branches=branches)
    python, native = both(sources)
    for text in (context, taught[0][0], [*context, *taught[-1][0]]):  # some that are known, some that are not
        assert whole(native.draft(text, rows, depth, floor)) == whole(python.draft(text, rows, depth, floor))
        for is_current in (False, True):
            assert native.edges(text, 7, is_current) == python.edges(text, 7, is_current)


SAID = st.lists(
    st.tuples(TEXTS, st.lists(TOKENS, min_size=3, max_size=3, unique=True), st.floats(0, 40)), max_size=30
)
"""Contexts, what is likely behind each, and by which lead."""


@needs_compiler
@given(
    taught=LEARNED,
    said=SAID,
    replies=st.lists(st.tuples(TEXTS, st.lists(TOKENS, max_size=6)), max_size=6),
    sampling=SAMPLINGS,
    tried=st.sampled_from([0.0, 255.5, 256.0]),
    bits=st.sampled_from([2, 10]),
)
def test_it_learns_what_python_learns(
    taught: Taught,
    said: Sequence[tuple[list[int], list[int], float]],
    replies: Sequence[tuple[list[int], list[int]]],
    sampling: Sampling,
    tried: float,
    bits: int,
) -> None:
    library = compiled_drafter().library
    assert library is not None
    counts = {cell: (tried / 2, tried) for cell in range(0, NUM_CELLS, 3)} if tried else {}
    tables = [table_of(taught, bits) for _ in range(2)]
    estimators = [AcceptanceEstimator(counts, first_trust=0.7) for _ in tables]
    sources = [DraftSources(*both, frozenset(), sampling, 1) for both in zip(tables, estimators, strict=True)]
    for drafter in (PythonDrafter(sources[0]), NativeDrafter(library, sources[1])):
        for text, accepted in [*replies, (taught[0][0][:1], taught[0][0][1:])]:
            drafter.observe(text, accepted)
            learn(drafter, said)
    assert np.array_equal(tables[0].rows, tables[1].rows)
    assert vars(estimators[0]) == vars(estimators[1])


def learn(drafter: PythonDrafter | NativeDrafter, said: Sequence[tuple[list[int], list[int], float]]) -> None:
    """As a step does, whose columns need not lie side by side."""
    contexts = np.array([last_tokens(text) for text, *_ in said], dtype=np.int64).reshape(-1, 4)
    wide = np.array([[*ids, 0] for _, ids, _ in said], dtype=np.int64).reshape(-1, 4)
    logits = np.array([[lead, 0.0, -lead / 3] for *_, lead in said], dtype=np.float32).reshape(-1, 3)
    drafter.learn_successors(contexts, wide[:, :3], np.asfortranarray(logits))


@needs_compiler
def test_contexts_that_share_a_place_are_told_apart() -> None:
    lines: Taught = [
        ([a, b, c, (a + b) % 24], "output", 1, [c, 1 + c], 2.0)
        for a in range(9)
        for b in range(9)
        for c in (1, 5)
    ]
    python, native = both(DraftSources(table_of(lines, bits=3), AcceptanceEstimator()))
    for line, *_ in lines:
        assert whole(native.draft(line, 40, 6, 1e-4)) == whole(python.draft(line, 40, 6, 1e-4))


@needs_compiler
def test_it_sees_what_is_learned_after_it_was_made() -> None:
    table, estimator = table_of([]), AcceptanceEstimator()
    python, native = both(DraftSources(table, estimator))
    assert len(native.draft([1, 2], 8, 4, 0.0)) == 1
    table.learn_follower([1, 2], pack_follower(5, "output", 0))
    before = native.draft([1, 2], 8, 4, 0.0)
    assert before.tokens == [2, 5]
    for _ in range(9):
        estimator.observe(native.edges([1, 2], 2)[0][2], False)
        estimator.observe_best(0.5, False)
    after = native.draft([1, 2], 8, 4, 0.0)
    assert after.reaches[1] < before.reaches[1]
    assert whole(after) == whole(python.draft([1, 2], 8, 4, 0.0))


@needs_compiler
def test_a_tree_may_have_more_rows_than_the_last_one() -> None:
    drafter = both(
        DraftSources(table_of([(list(range(24)), "document", 0, [], 0.0)]), AcceptanceEstimator())
    )[1]
    assert [len(drafter.draft([0], rows, 1000, 0.0)) for rows in (3, 500, 3)] == [3, 24, 3]


def grammar(_text: Sequence[int], _added: Callable[[], Sequence[int]]) -> AllowedTokens | None:
    return None


def test_a_reply_under_a_grammar_is_drafted_in_python() -> None:
    sources = DraftSources(table_of([]), AcceptanceEstimator(), constraint=grammar)
    assert isinstance(best_drafter()(sources), PythonDrafter)
