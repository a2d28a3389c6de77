"""Messages that ask nothing of the documents, by a table of phrases and by the labelled questions."""

import pytest

from app.documents.search.questions import is_conversational
from tools.retrieval.labelled import QUALITY, read_follow_ups, read_questions

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
