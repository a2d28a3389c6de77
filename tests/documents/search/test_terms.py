"""What is indexed of a passage and asked of a question, against a real index."""

import sqlite3
from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.documents.search.terms import MAX_TERMS, any_of, folded, indexed, terms


def finds(text: str, question: str) -> bool:
    """Whether an index that holds a text finds it by a question."""
    asked = any_of(terms(question))
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute(
            "CREATE VIRTUAL TABLE words USING fts5 (text, tokenize = 'unicode61 remove_diacritics 2')"
        )
        connection.execute("INSERT INTO words VALUES (?)", (indexed(text),))
        return bool(
            asked and connection.execute("SELECT 1 FROM words WHERE words MATCH ?", (asked,)).fetchone()
        )


@pytest.mark.parametrize(
    ("text", "question"),
    [
        ("Die Réunion der Ärzte", "reunion"),
        ("Die Réunion der Ärzte", "ARZTE"),
        ("def parse_http_date(text):", "parse_http_date"),
        ("def parse_http_date(text):", "http"),
        ("new HTTPServer().parseHTTPDate()", "parseHTTPDate"),
        ("new HTTPServer().parseHTTPDate()", "date"),
        ("new HTTPServer().parseHTTPDate()", "server"),
        ("call os.path.join here", "What is os.path.join?"),
        ("call os.path.join here", "join"),
        ("the release of 2024-01-05 costs 3.14", "3.14"),
        ("会议记录, 下周一在北京开会", "北京"),
        ("会议记录, 下周一在北京开会", "京"),
        ("서울의 날씨가 좋다", "날씨"),
        ("ข้อความภาษาไทย", "ภาษา"),
        ("the ink is blue", "what is it?"),
    ],
)
def test_a_passage_is_found(text: str, question: str) -> None:
    assert finds(text, question)


@pytest.mark.parametrize(
    ("text", "question"),
    [
        ("the lease of the house", "What is the notice period?"),
        ("会议记录", "议会"),
        ("anything at all", "?!"),
        ("anything at all", ""),
    ],
)
def test_another_passage_is_not(text: str, question: str) -> None:
    assert not finds(text, question)


def test_words_that_every_question_has_are_left_out_but_where_there_are_no_others() -> None:
    assert terms("What's the price of it?") == ("price",)
    assert terms("To be or not to be") == ("not",)
    assert terms("Who are they?") == ("who", "are", "they")


def test_a_name_of_code_counts_whole_and_by_its_parts() -> None:
    assert terms("os.path") == ("os path", "os", "path")
    assert terms("getUserName") == ("getusername", "get", "user", "name")


def test_a_pasted_page_is_not_asked_whole() -> None:
    assert len(terms(" ".join(f"word{number}" for number in range(1000)))) == MAX_TERMS


def test_folding_is_what_the_index_does() -> None:
    assert folded("Été_à Paris!") == "ete a paris"
    assert folded("In Paris:\tparse_date!") == "in paris parse date"


@given(st.text(st.characters()), st.text(st.characters()))
def test_no_question_is_an_error(text: str, question: str) -> None:
    finds(text, question)
