"""What is said once is enough."""

import numpy as np

from app.document_messages import Found, Passage
from app.documents.search.diversity import diverse, without_repeats


def found(
    number: int, start: int = 0, end: int = 10, document: int = 1, text: str = "", score: float = 1.0
) -> Found:
    return Found(Passage(number, document, "", start, end, text or f"text {number}"), score)


def ids(some: list[Found]) -> list[int]:
    return [one.passage.id for one in some]


def test_a_passage_that_lies_mostly_in_a_better_one_is_left_out() -> None:
    assert ids(without_repeats([found(1, 0, 100), found(2, 40, 120), found(3, 90, 200)])) == [1, 3]


def test_the_same_place_in_another_document_is_no_repeat_but_the_same_words_are() -> None:
    assert ids(without_repeats([found(1), found(2, document=2), found(3, document=3, text="text 1")])) == [
        1,
        2,
    ]


def test_likeness_to_what_is_chosen_costs() -> None:
    vectors = {
        1: np.array([1, 0], np.float32),
        2: np.array([1, 0], np.float32),
        3: np.array([0, 1], np.float32),
    }
    some = [found(1, score=1.0), found(2, score=0.9), found(3, score=0.7)]
    assert ids(diverse(some, vectors, 2, share=0.5)) == [1, 3]
    assert ids(diverse(some, vectors, 2, share=0.0)) == [1, 2]
    assert ids(diverse(some, {}, 3, share=0.5)) == [1, 2, 3]
    assert diverse([], {}, 3, share=0.5) == []
