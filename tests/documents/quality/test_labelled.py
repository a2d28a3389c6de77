"""The labelled set is what it says it is, on every Python."""

import re
from collections import Counter

from tests.support.labelled_questions import QUALITY, read_follow_ups, read_questions, read_texts


def test_there_are_enough_questions_of_each_kind() -> None:
    kinds = Counter(one.kind for one in read_questions())
    assert kinds == {"near": 110, "paraphrase": 110, "absent": 40}
    assert len(read_follow_ups()) == 30


def test_every_answer_stands_in_exactly_one_place() -> None:
    books = {name: (QUALITY / f"{name}.txt").read_text(encoding="utf-8") for name in ("alice", "oz")}
    flat = {name: re.sub(r"\s+", " ", text) for name, text in books.items()}
    asked = [one for one in (*read_questions(), *read_follow_ups()) if one.document in books]
    assert {one.answer: flat[one.document].count(one.answer) for one in asked} == {
        one.answer: 1 for one in asked
    }


def test_what_is_asked_of_python_is_documented_by_this_one() -> None:
    titles = {text.title for text in read_texts() if text.document == "python"}
    asked = [one for one in (*read_questions(), *read_follow_ups()) if one.document == "python"]
    lost = [one.answer for one in asked if titles.isdisjoint(one.answer.split("|"))]
    assert len(lost) <= 0.05 * len(asked), lost


def test_paraphrases_share_few_words_with_their_passage() -> None:
    """Near questions share most of their longer words with the names and texts that answer them."""
    texts = {text.title: f"{text.title} {text.text}".lower() for text in read_texts()}
    shared: dict[str, list[float]] = {"near": [], "paraphrase": []}
    for one in read_questions():
        if one.document == "python" and one.answer.split("|")[0] in texts:
            words = set(re.findall(r"[a-z]{5,}", one.question.lower()))
            text = texts[one.answer.split("|")[0]]
            shared[one.kind].append(sum(word in text for word in words) / max(1, len(words)))
    means = {kind: sum(some) / len(some) for kind, some in shared.items()}
    assert means["near"] > 0.8 and means["paraphrase"] < 0.3
