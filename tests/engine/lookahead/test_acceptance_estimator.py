"""Chances start from priors, follow what was observed, and keep what was counted."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.engine.block.context_entries import LEADS, SOURCES
from app.engine.lookahead.acceptance_estimator import (
    FADE,
    FIRST_CODE,
    GAP_CLASSES,
    NUM_CELLS,
    NUM_FOLLOWER_CODES,
    NUM_SUCCESSOR_CODES,
    RANKS,
    TRUST,
    AcceptanceEstimator,
    alternative_code,
    follower_code,
    origin_of,
    successor_code,
)
from app.engine.lookahead.context_table import LONGEST
from app.engine.lookahead.priors import FOLLOWER_WEIGHTS, SUCCESSOR_WEIGHTS
from app.values.messages import Origin

LENGTHS = range(1, LONGEST + 1)
SURE, UNSURE = LEADS + 6, LEADS
"""A large lead over the second token, and a small one."""
CELL = successor_code(3, SURE) * NUM_FOLLOWER_CODES + follower_code(2, 3, 1)
OTHER = successor_code(1, 0) * NUM_FOLLOWER_CODES


def test_every_kind_of_candidate_has_a_cell_of_its_own_and_a_prior() -> None:
    said = [successor_code(length, gap) for length, gap in product(range(FIRST_CODE), range(GAP_CLASSES))]
    said += [alternative_code(known, gap) for known, gap in product(range(FIRST_CODE), range(LEADS))]
    seen = [follower_code(*kind) for kind in product(range(len(SOURCES)), LENGTHS, range(RANKS))]
    assert sorted([*range(FIRST_CODE), *said]) == list(range(NUM_SUCCESSOR_CODES))
    assert sorted([*range(FIRST_CODE), *seen]) == list(range(NUM_FOLLOWER_CODES))
    assert (len(SUCCESSOR_WEIGHTS), len(FOLLOWER_WEIGHTS)) == (NUM_SUCCESSOR_CODES, NUM_FOLLOWER_CODES)


def test_from_the_first_step_on_every_cell_has_a_chance() -> None:
    rates = AcceptanceEstimator().rates
    assert len(rates) == NUM_CELLS
    assert all(0 < rate < 1 for rate in rates)


@pytest.mark.parametrize("length", LENGTHS)
def test_a_clear_lead_is_believed_more_than_a_narrow_one_and_the_best_more_than_those_behind(
    length: int,
) -> None:
    rates = AcceptanceEstimator().rates
    clear, narrow, far_behind = (
        rates[successor_code(length, gap) * NUM_FOLLOWER_CODES + length] for gap in (SURE, UNSURE, LEADS - 1)
    )
    assert clear > narrow > far_behind


@pytest.mark.parametrize("length", LENGTHS)
def test_a_token_that_both_the_model_and_a_text_propose_is_likelier(length: int) -> None:
    rates = AcceptanceEstimator().rates
    both = rates[
        successor_code(length, SURE) * NUM_FOLLOWER_CODES + follower_code(SOURCES.index("output"), length, 0)
    ]
    assert both > rates[successor_code(length, SURE) * NUM_FOLLOWER_CODES + length]


@pytest.mark.parametrize("sizer", [0.0, 0.25, 0.75, 1.0])
def test_many_observations_outweigh_the_prior(sizer: float) -> None:
    estimator = AcceptanceEstimator()
    for place in range(400):
        estimator.observe(CELL, place % 4 < 4 * sizer)
    assert estimator.rates[CELL] == pytest.approx(sizer, abs=0.05)
    assert 0 < estimator.rates[CELL] < 1


def test_old_counts_fade_so_that_a_cell_follows_the_text() -> None:
    estimator = AcceptanceEstimator()
    for _ in range(5000):
        estimator.observe(CELL, True)
    assert estimator.counts[CELL][1] <= FADE
    for _ in range(int(2 * FADE)):
        estimator.observe(CELL, False)
    assert estimator.rates[CELL] < 0.2


@given(seen=st.lists(st.tuples(st.sampled_from((CELL, OTHER, 0, NUM_CELLS - 1)), st.booleans()), max_size=40))
def test_kept_counts_give_the_same_chances_again(seen: list[tuple[int, bool]]) -> None:
    estimator = AcceptanceEstimator()
    for cell, is_accepted in seen:
        estimator.observe(cell, is_accepted)
    again = AcceptanceEstimator(estimator.counts)
    assert (again.rates, again.counts) == (estimator.rates, estimator.counts)
    assert all(0 <= accepted <= tried for accepted, tried in again.counts.values())


def test_guesses_that_are_as_right_as_they_should_be_are_trusted() -> None:
    estimator = AcceptanceEstimator()
    assert estimator.trust == 1.0
    for place in range(60):
        estimator.observe_best(0.5, place % 2 == 0)
    assert estimator.trust == pytest.approx(1.0, abs=0.05)


def test_where_nothing_is_right_trust_goes_and_comes_back_with_better_guesses() -> None:
    estimator = AcceptanceEstimator()
    for _ in range(100):
        estimator.observe_best(0.6, False)
    lowest = estimator.trust
    assert TRUST[0] <= lowest < 0.3
    for _ in range(100):
        estimator.observe_best(0.6, True)
    assert estimator.trust > 1


@pytest.mark.parametrize(("length", "gap"), [*product(LENGTHS, (0, LEADS - 1, LEADS, GAP_CLASSES - 1))])
def test_a_token_that_no_text_had_is_the_models_own_proposal(length: int, gap: int) -> None:
    for known in range(FIRST_CODE):
        assert origin_of(successor_code(length, gap) * NUM_FOLLOWER_CODES + known) == "successor"


@pytest.mark.parametrize(("source", "rank"), [*product(SOURCES, range(RANKS))])
def test_a_token_that_the_model_did_not_hold_likely_is_its_texts(source: Origin, rank: int) -> None:
    for length, known in product(LENGTHS, range(FIRST_CODE)):
        assert (
            origin_of(known * NUM_FOLLOWER_CODES + follower_code(SOURCES.index(source), length, rank))
            == source
        )


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize(("said", "seen"), [*product(LENGTHS, LENGTHS)])
def test_a_token_that_both_propose_is_its_texts_unless_the_model_knew_a_longer_context(
    source: Origin, said: int, seen: int
) -> None:
    cell = successor_code(said, SURE) * NUM_FOLLOWER_CODES + follower_code(SOURCES.index(source), seen, 1)
    assert origin_of(cell) == (source if seen >= said else "successor")
