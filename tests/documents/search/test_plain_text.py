"""A passage is shown without the marks of its Markdown, and its words stay."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.documents.search.snippets import plain_passage, plain_text
from app.values.document import Passage

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


def passage(text: str, title: str = "lease.md") -> Passage:
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
    code = passage("# A comment\ndef __init__(self): ...", title)
    assert plain_passage(code) is code


@pytest.mark.parametrize("title", ["Lease", "lease.MD", "page.html", "letter.docx"])
def test_the_place_in_the_document_stays(title: str) -> None:
    found = plain_passage(passage("**Cats** may stay.", title))
    assert (found.text, found.start, found.end) == ("Cats may stay.", 10, 28)


def test_nothing_but_marks_stays() -> None:
    rule = passage("---")
    assert plain_passage(rule) is rule


@given(st.text("ab1 \n#*_`|>-+.)[]!~<&;:\\", max_size=60))
def test_no_text_breaks_it_or_loses_its_letters(text: str) -> None:
    kept = [letter for letter in plain_text(text) if letter in "ab"]
    written = [letter for letter in text if letter in "ab"]
    if (
        "`" not in text and "~" not in text and "]" not in text
    ):  # what a fence says of its language, and addresses
        assert kept == written
