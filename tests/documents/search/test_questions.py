"""Which messages are searched, and follow-up questions with the words they refer to, by labelled questions."""

import pytest

from app.documents.search.questions import is_conversational, is_follow_up, self_contained
from tests.support.labelled_questions import QUALITY, read_follow_ups, read_questions

PHRASES = [
    line.split("\t") for line in (QUALITY / "conversational.tsv").read_text(encoding="utf-8").splitlines()
]
"""When the phrase is conversational ("always", "after an answer", "never"), its language, the phrase."""


@pytest.mark.parametrize(("when", "phrase"), [(when, phrase) for when, _, phrase in PHRASES])
def test_a_phrase_is_searched_or_not_as_the_table_says(when: str, phrase: str) -> None:
    expected = {"always": (True, True), "after an answer": (False, True), "never": (False, False)}[when]
    assert (is_conversational(phrase, False), is_conversational(phrase, True)) == expected


def test_every_labelled_question_is_searched() -> None:
    questions = [one.question for one in (*read_follow_ups(), *read_questions())]
    assert len(questions) == 290
    assert not [question for question in questions if is_conversational(question, True)]


@pytest.mark.parametrize(
    "message", ["", "?!", "\N{WAVING HAND SIGN}", "的", "a" * 100_000, "thanks " * 20_000]
)
def test_any_message_is_judged_at_once(message: str) -> None:
    assert is_conversational(message, True) is message.startswith("thanks")


@pytest.mark.parametrize(
    ("question", "before", "searched"),
    [
        ("Who won it?", "What is the Caucus-race of the Dodo?", "Who won it? (Caucus-race Dodo)"),
        ("And the mallets?", "What is the croquet-ground like?", "And the mallets? (croquet-ground like)"),
        ("Why?", "When does the lease end?", "Why? (lease end)"),
        ("Und wann endet er?", "Was kostet der Mietvertrag?", "Und wann endet er? (kostet der Mietvertrag)"),
        ("为什么", "会议在哪里", "为什么 (会议在哪里)"),
    ],
)
def test_it_is_searched_with_the_words_before(question: str, before: str, searched: str) -> None:
    assert self_contained(question, [before]).startswith(question)
    assert self_contained(question, [before]) == searched


@pytest.mark.parametrize(
    "question",
    [
        "When does the lease of the house in Berlin end?",
        "How do I list the n most common elements of a counter and their counts?",
        "Which wine goes well with grilled salmon?",
    ],
)
def test_a_question_that_stands_alone_stays_as_it_is(question: str) -> None:
    assert self_contained(question, ["What is os.path?"]) == question


def test_a_chain_of_follow_ups_leads_back_to_what_is_spoken_of() -> None:
    earlier = ["What does heapq.merge do?", "Is it lazy?"]
    assert "heapq.merge" in self_contained("And sorted?", earlier)


def test_without_questions_before_a_question_is_searched_as_it_is() -> None:
    assert self_contained("Who wrote it?", []) == "Who wrote it?"


def test_labelled_follow_ups_lean_and_other_questions_hardly_ever_do() -> None:
    follow_ups, others = read_follow_ups(), read_questions()
    assert sum(is_follow_up(one.question) for one in follow_ups) >= 0.9 * len(follow_ups)
    assert sum(is_follow_up(one.question) for one in others) <= 0.03 * len(others)
