"""What is shown of a passage: its best sentences, the words of the question, plain text without Markdown."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.documents.search.snippets import highlighted, plain_passage, plain_text, snippet
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
        ("The Rent is 740 euros, no rental.", "What is the rent?", ["Rent", "rental"]),
        ("Le café; cafe.", "CAFÉ", ["café", "cafe"]),
        ("Call os.path or parseHTTPDate.", "What does os.path parse?", ["os", "path", "parseHTTPDate"]),
        ("\u4f1a\u8bae\u8bb0\u5f55\u5728\u6b64", "\u4f1a\u8bae\u8bb0\u5f55", ["\u4f1a\u8bae\u8bb0\u5f55"]),
        ("Die H\u00e4user stehen in der Stadt.", "Wo steht das Haus?", ["H\u00e4user"]),
        ("Our inter\u00adnational photo\u200bgrapher", "photographer", ["photo\u200bgrapher"]),
        ("We write C++ and C.", "Who writes C++?", ["write", "C++"]),
        ("Nothing of it.", "elephants", []),
        ("", "rent", []),
    ],
)
def test_the_words_of_the_question_are_marked(text: str, question: str, hits: list[str]) -> None:
    parts = list(highlighted(text, question))
    assert "".join(part for part, _ in parts) == text
    assert [part for part, is_hit in parts if is_hit] == hits


LEASE = """## The **rent**

It is `740 euros`, see [the lease](https://example.org) and ![a plan of the flat](plan.png).

1. Pay in May.
2. Keep the *receipt*:
   - on paper
   - or as a file

| month | euros |
|-------|------:|
| May   | **740** |

> Quoted ~~once~~ twice.

```sh
ls *.pdf | wc -l
```
"""
PLAIN = """The rent

It is 740 euros, see the lease and a plan of the flat.

1. Pay in May.
2. Keep the receipt:
• on paper
• or as a file

month · euros
May · 740

Quoted once twice.

ls *.pdf | wc -l"""


def titled(text: str, title: str = "lease.md") -> Passage:
    return Passage(1, 1, title, 10, 10 + len(text), text)


def test_marks_are_left_out_and_words_stay() -> None:
    assert plain_text(LEASE) == PLAIN


def test_a_table_whose_head_is_in_another_passage_has_no_pipes_either() -> None:
    rows = plain_text("| May | **740** |\n| June | 750 |\n\nPay in time.")
    assert rows == "May · 740\nJune · 750\n\nPay in time."
    assert plain_text("|x| > 2 for all x") == "|x| > 2 for all x", "it is no table"


@pytest.mark.parametrize(
    "text",
    [
        "snake_case, 2 * 3 * 4 and a < b",
        "[1]: there",
        "<b>shown</b> as it is written",
        "The rent is\n740 euros.",
        "Price: 5 # per piece",
    ],
)
def test_what_is_no_markdown_stays(text: str) -> None:
    assert plain_text(text) == text


@pytest.mark.parametrize("title", ["pool.py", "notes.rst", "table.csv"])
def test_source_code_stays_as_it_is(title: str) -> None:
    code = titled("# A comment\ndef __init__(self): ...", title)
    assert plain_passage(code) is code


@pytest.mark.parametrize("title", ["Lease", "lease.MD", "page.html", "letter.docx"])
def test_the_place_in_the_document_stays(title: str) -> None:
    found = plain_passage(titled("**Cats** may stay.", title))
    assert (found.text, found.start, found.end) == ("Cats may stay.", 10, 28)


@given(st.text("ab1 \n#*_`|>-+.)[]!~<&;:\\", max_size=60))
def test_no_text_breaks_it_or_loses_its_letters(text: str) -> None:
    kept = [letter for letter in plain_text(text) if letter in "ab"]
    written = [letter for letter in text if letter in "ab"]
    if (
        "`" not in text and "~" not in text and "]" not in text
    ):  # what a fence says of its language, and addresses
        assert kept == written
