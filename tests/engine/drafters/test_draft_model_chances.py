"""What a draft model's guesses are worth is learned, whatever it says of itself."""

import random

import pytest

from app.engine.drafters.draft_model_chances import DraftModelChances
from app.engine.lookahead.acceptance_estimator import DRAFTED
from app.engine.lookahead.drafter import Edge

SURE, BEHIND = 15, 3
"""Gap classes: the best by a clear lead, and one far behind it."""
POOL: list[Edge] = [(0.5, 7, 3), (0.1, 8, 4)]
RIGHT, POOLS = 1, 7


def chance_of(chances: DraftModelChances, token: int, trust: float = 1.0) -> float:
    edges, _ = chances.joined(0, [(RIGHT, SURE), (2, BEHIND)], POOL, trust)
    return next(chance for chance, other, _ in edges if other == token) * trust


def write(chances: DraftModelChances, share: float, steps: int = 400) -> None:
    """A text that goes on as the draft model is sure it does in this share of places, else as the pool says."""
    generator = random.Random(5)
    for _ in range(steps):
        _, judged = chances.joined(0, [(RIGHT, SURE), (2, BEHIND)], POOL, 1.0)
        chances.observe(judged, RIGHT if generator.random() < share else POOLS)


@pytest.mark.parametrize("share", [0.05, 0.3, 0.7, 0.95])
def test_a_guess_is_as_likely_as_such_guesses_were_right(share: float) -> None:
    chances = DraftModelChances()
    write(chances, share)
    assert chance_of(chances, RIGHT) == pytest.approx(share, abs=0.12)
    assert chance_of(chances, POOLS) == pytest.approx(1 - share, abs=0.12)


def test_a_draft_model_that_is_always_wrong_loses_the_first_place_within_ten_steps() -> None:
    chances = DraftModelChances()
    assert chance_of(chances, RIGHT) > chance_of(chances, POOLS)
    write(chances, 0.0, steps=10)
    assert chance_of(chances, RIGHT) < chance_of(chances, POOLS)


def test_an_unknown_draft_model_takes_little_from_what_the_pool_is_sure_of() -> None:
    edges, _ = DraftModelChances().joined(0, [(RIGHT, SURE)], [(0.9, 7, 3)], 1.0)
    assert edges[0][1] == 7
    assert edges[0][0] > 0.8


def test_it_is_believed_less_at_every_depth_and_gap_after_its_first_mistakes() -> None:
    chances = DraftModelChances()
    before = [chances.joined(4, [(RIGHT, lead)], [], 1.0)[0][0][0] for lead in range(8, 16)]
    write(chances, 0.0, steps=2)
    after = [chances.joined(4, [(RIGHT, lead)], [], 1.0)[0][0][0] for lead in range(8, 16)]
    assert all(late < early for early, late in zip(before, after, strict=True))
    assert after[-1] < before[-1] - 0.2, "the surer it is, the more"


def test_what_the_pool_expects_most_stays_its_guess_though_the_draft_model_agrees() -> None:
    edges, _ = DraftModelChances().joined(0, [(7, SURE), (8, BEHIND), (9, BEHIND)], POOL, 1.0)
    cells = {token: cell for _, token, cell in edges}
    assert cells == {7: 3, 8: DRAFTED, 9: DRAFTED}


def test_a_pool_that_knows_nothing_leaves_the_guesses_to_the_draft_model() -> None:
    edges, _ = DraftModelChances().joined(0, [(RIGHT, SURE), (2, BEHIND)], [], 1.0)
    assert [token for _, token, _ in edges] == [RIGHT, 2]
