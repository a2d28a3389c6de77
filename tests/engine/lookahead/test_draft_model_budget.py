"""The draft model is asked where that pays, and rarely where it does not."""

from itertools import pairwise

import pytest

from app.engine.lookahead.draft_model_budget import ALWAYS, SAVED, DraftModelBudget

QUESTION, TOKEN = 0.004, 0.001
PLAIN = 0.025
"""Seconds of a plain step."""
SPEED = 1 / PLAIN


def budget(question: float = QUESTION) -> DraftModelBudget:
    return DraftModelBudget(question, TOKEN)


def learned(budget: DraftModelBudget, tokens: float, steps: int = 300) -> DraftModelBudget:
    """After so many questions about the current token, each of which brought so many tokens on average."""
    owed = 0.0
    for _ in range(steps):
        owed += tokens
        budget.learn(int(owed), 1.0)
        owed -= int(owed)
    return budget


def test_without_a_price_it_is_always_asked() -> None:
    asked = learned(budget(question=10.0), -1.0)
    asked.price(SPEED)
    asked.begin_reply()
    assert asked.least(5_000) == ALWAYS


def test_the_better_it_is_the_deeper_it_is_asked() -> None:
    found = []
    for gain in (0.2, 0.4, 0.8):
        asked = learned(budget(), gain)
        asked.price(SPEED)
        found.append(asked.least(1))
    assert found == sorted(found, reverse=True)
    assert found[1] == pytest.approx(SPEED * QUESTION / 0.4, rel=0.1)


def test_a_long_unread_text_makes_a_question_other() -> None:
    asked = budget()
    asked.price(SPEED)
    assert asked.least(1) < asked.least(30) < asked.least(2_000)


@pytest.mark.parametrize("gain", [-0.5, 0.0, 0.05])
def test_what_does_not_pay_takes_at_most_half_a_hundredth_of_the_time(gain: float) -> None:
    asked = learned(budget(question=0.5 * PLAIN), gain)
    asked.price(SPEED)
    looking = total = 0.0
    looks = 0
    for _ in range(8_000):
        seconds, total = PLAIN, total + PLAIN
        if asked.least(1) <= 1:
            looks += 1
            looking += asked.question
            seconds += asked.question
            asked.asked(asked.question, 1, 1)
            asked.learn(0, 1.0)
        asked.settle(seconds)
    assert looks > 10, "it is looked at again"
    assert looking <= 0.0055 * total


def test_a_look_that_took_longer_than_was_saved_is_paid_before_the_next_one() -> None:
    asked = learned(budget(), 0.0)
    asked.price(SPEED)
    slow, steps = 10 * QUESTION, list[int]()
    for step in range(4_000):
        if asked.least(1) <= 1:
            steps.append(step)
            asked.asked(slow, 1, 1)
            asked.learn(0, 1.0)
            asked.settle(PLAIN + slow)
        else:
            asked.settle(PLAIN)
    assert min(late - early for early, late in pairwise(steps)) >= 0.9 * slow / (SAVED * PLAIN)


def test_a_long_text_tells_what_reading_takes() -> None:
    asked = budget()
    asked.asked(1_000 * 3 * TOKEN + QUESTION, 1, 1_001)
    assert asked.question == QUESTION, "which is another matter"
    asked.price(SPEED)
    other = budget()
    other.price(SPEED)
    assert asked.least(100) > other.least(100)


def test_one_that_becomes_good_is_asked_again() -> None:
    asked = learned(budget(), 0.0)
    asked.price(SPEED)
    questions = 0
    for _ in range(4_000):
        if asked.least(1) <= 1:
            questions += 1
            asked.asked(QUESTION, 1, 1)
            asked.learn(1, 1.0)
            asked.settle(PLAIN + QUESTION)
        else:
            asked.settle(PLAIN)
    assert questions > 3_000


def test_the_time_of_questions_is_told_once() -> None:
    asked = budget()
    asked.asked(0.02, 2, 1)
    assert asked.settle(0.05) == 0.02
    assert asked.settle(0.05) == 0.0
    assert asked.question > QUESTION
