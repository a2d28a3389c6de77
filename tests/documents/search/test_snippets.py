"""Passages narrowed to what is asked for keep their place in the text, and the words that matter."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.documents.search.snippets import highlighted, snippet
from app.values.document import Passage

TEXT = "A lease has two sides. The rent is 740 euros. It is due in May. Cats may stay."


def passage(text: str, start: int = 0) -> Passage:
    return Passage(1, 1, "Lease", start, start + len(text), text)


def test_the_sentence_that_is_asked_for_stays_with_its_neighbours() -> None:
    found = snippet(passage(TEXT, 100), "What is the rent?", 50)
    assert found.text == "The rent is 740 euros. It is due in May."
    assert (found.start, found.end) == (123, 163)


@pytest.mark.parametrize(
    ("question", "kept"),
    [
        ("cats", "Cats may stay."),
        ("In which May is it due?", "It is due in May."),
        ("两", "A lease has two sides."),
    ],
)
def test_each_sentence_can_be_the_one(question: str, kept: str) -> None:
    assert snippet(passage(TEXT), question, 25).text == kept


def test_what_has_room_stays_whole() -> None:
    assert snippet(passage(TEXT), "rent", len(TEXT)) == passage(TEXT)


def test_no_sentence_goes_on_behind_an_empty_line() -> None:
    assert snippet(passage("Heading\n\nThe rent is low"), "rent", 17).text == "The rent is low"


@given(st.text(min_size=1).filter(str.strip), st.text(max_size=30), st.integers(1, 60))
def test_the_place_is_always_that_of_the_words(text: str, question: str, most: int) -> None:
    found = snippet(passage(text), question, most)
    assert text[found.start : found.end] == found.text
    assert len(found.text) <= max(most, 1) or found.text == text


def test_a_paragraph_that_is_indented_by_more_than_there_is_room_for_is_focused_on_its_words() -> None:
    text = f"Some words.\n\n{' ' * 600}The rent is 740 euros."
    found = snippet(Passage(1, 1, "a", 0, len(text), text), "What is the rent?", 100)
    assert found.text == "The rent is 740 euros."
    assert text[found.start : found.end] == found.text


@pytest.mark.parametrize(
    ("text", "question", "hits"),
    [
        ("The Rent is 740 euros, no rental.", "What is the rent?", ["Rent"]),
        ("Le café; cafe.", "CAFÉ", ["café", "cafe"]),
        ("Call os.path or parseHTTPDate.", "What does os.path parse?", ["os", "path", "parseHTTPDate"]),
        ("\u4f1a\u8bae\u8bb0\u5f55\u5728\u6b64", "\u4f1a\u8bae\u8bb0\u5f55", ["\u4f1a\u8bae\u8bb0\u5f55"]),
        ("Nothing of it.", "elephants", []),
        ("", "rent", []),
    ],
)
def test_the_words_of_the_question_are_marked(text: str, question: str, hits: list[str]) -> None:
    parts = list(highlighted(text, question))
    assert "".join(part for part, _ in parts) == text
    assert [part for part, is_hit in parts if is_hit] == hits
