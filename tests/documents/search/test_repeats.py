"""What is said once is enough."""

from app.document_messages import Passage, PassageHit
from app.documents.search.repeats import without_repeats


def found(number: int, start: int = 0, end: int = 10, document: int = 1, text: str = "") -> PassageHit:
    return PassageHit(Passage(number, document, "", start, end, text or f"text {number}"), 1.0)


def ids(some: list[PassageHit]) -> list[int]:
    return [one.passage.id for one in some]


def test_a_passage_that_lies_mostly_in_a_better_one_is_left_out() -> None:
    assert ids(without_repeats([found(1, 0, 100), found(2, 40, 120), found(3, 90, 200)])) == [1, 3]


def test_the_same_place_in_another_document_is_no_repeat_but_the_same_words_are() -> None:
    assert ids(without_repeats([found(1), found(2, document=2), found(3, document=3, text="text 1")])) == [
        1,
        2,
    ]
