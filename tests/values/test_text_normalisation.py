"""Scripts without spaces are set apart, character by character."""

import sqlite3
from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.values.text_normalisation import spaced, storable


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("FTS5 用于全文搜索", ["FTS5", "用", "于", "全", "文", "搜", "索"]),
        ("서울 날씨", ["서", "울", "날", "씨"]),
        ("plain words", ["plain", "words"]),
        ("ﬁne ２０２４", ["fine", "2024"]),  # noqa: RUF001 - other forms of the same characters
    ],
)
def test_each_character_that_is_a_word_stands_alone(text: str, words: list[str]) -> None:
    assert spaced(text).split() == words


@given(st.text(st.characters()))
def test_any_text_can_be_stored_and_indexed(text: str) -> None:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("CREATE VIRTUAL TABLE words USING fts5 (text)")
        connection.execute("INSERT INTO words VALUES (?)", (spaced(text),))
    assert storable(storable(text)) == storable(text)
