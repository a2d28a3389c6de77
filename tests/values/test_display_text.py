"""What a chat is called by its first question."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.values.display_text import WIDTH, columns, seconds_in_words, title_of


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("What is a monad?", "What is a monad?"),
        ("## Hello **there**, how are you? I am fine.", "Hello there, how are you?"),
        ("Explain quicksort. Use Python.", "Explain quicksort"),
        ("Hi. Can you help me with my taxes?", "Hi. Can you help me with my taxes?"),
        (
            "\n\n  - see [the docs](http://x.y) and `snake_case_name`\nmore",
            "see the docs and snake_case_name",
        ),
        ("```python\nprint(1)\n```\nWhat does this do?", "print(1)"),
        ("1. first\n2. second", "first"),
        ("> quoted __strong__ and _soft_ 2*3", "quoted strong and soft 2*3"),
        ("line\twith \x07 bell", "line with bell"),
        ("Version 3.11 is out. Should I take it?", "Version 3.11 is out"),
        (
            "Please write me a long story about a dragon who learns to decode ahead",
            "Please write me a long story about a dragon who…",
        ),
        ("a" * 100, "a" * 47 + "…"),
        ("用于全文搜索的句子。第二句。", "用于全文搜索的句子"),
        ("全" * 60, "全" * 23 + "…"),
        ("", ""),
        (" \n\t", ""),
        ("```\n```", "``` ```"),
        ("***", "***"),
    ],
)
def test_a_title_is_the_first_thing_that_is_said(text: str, title: str) -> None:
    assert title_of(text) == title


@given(st.text(max_size=300))
def test_a_title_is_one_short_line(text: str) -> None:
    title = title_of(text)
    assert columns(title) <= WIDTH
    assert title.splitlines() in ([], [title])


def test_a_character_is_not_cut_from_its_marks() -> None:
    family = "👨\u200d👩\u200d👧"
    title = title_of("a" * 40 + family * 5)
    assert not title.removesuffix("…").endswith("\u200d")


def test_times_are_told_in_the_unit_that_suits_them() -> None:
    assert [seconds_in_words(seconds) for seconds in (0.0841, 1.25, 59.9)] == ["84 ms", "1.2 s", "59.9 s"]
    assert seconds_in_words(125.4) == "2 min 5 s"
