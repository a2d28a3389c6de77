"""What is indexed of a passage and asked of a question, against a real index."""

import sqlite3
from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.database.migrations import shipped_migrations, statements
from app.documents.search.terms import MAX_TERMS, any_of, indexed, terms

CREATED = next(
    statement
    for migration in reversed(shipped_migrations())
    for statement in statements(migration)
    if "CREATE VIRTUAL TABLE passage_words" in statement
)


def finds(text: str, question: str, language: str = "") -> bool:
    """Whether an index that holds a text finds it by a question."""
    asked = any_of(terms(question, language))
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute(CREATED)
        connection.execute("INSERT INTO passage_words VALUES (?)", (indexed(text, language),))
        found = "SELECT 1 FROM passage_words WHERE passage_words MATCH ?"
        return bool(asked and connection.execute(found, (asked,)).fetchone())


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
        ("Programmed in C++, not in C.", "C++"),
        ("C++20 and C++", "Is it C++?"),
        ("the .NET runtime", ".NET"),
        ("the .NET runtime", "net"),
        ("a book on ASP.NET", "What is ASP.NET?"),
        ("Ge\u00adsamt\u00adkosten\u00adabrechnung", "Gesamtkostenabrechnung"),
        ("a photo\u200bgraph\u200ber", "photographer"),
        ("a photographer", "photo\u2060grapher"),
        ("\u0643\u0650\u062a\u064e\u0627\u0628\u064c \u0639\u0646", "\u0643\u062a\u0627\u0628"),
        ("\u05e1\u05b5\u05e4\u05b6\u05e8", "\u05e1\u05e4\u05e8"),
        (
            "\u092a\u0941\u0938\u094d\u0924\u0915\u093e\u0932\u092f",
            "\u092a\u0941\u0938\u094d\u0924\u0915\u093e\u0932\u092f",
        ),
        ("de\u0301cafe\u0301ine\u0301", "d\u00e9caf\u00e9in\u00e9"),
    ],
)
def test_a_passage_is_found(text: str, question: str) -> None:
    assert finds(text, question)


@pytest.mark.parametrize(
    ("text", "question"),
    [
        ("the lease of the house", "What is the notice period?"),
        ("会议记录", "议会"),
        ("Programmed in C.", "C++"),
        ("C# and F#", "C"),
        ("\u092a\u0941\u0938\u094d\u0924\u0915 \u0939\u0948", "\u0915\u093f\u0924\u093e\u092c"),
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


def test_what_is_indexed_is_plain_words_between_spaces() -> None:
    assert indexed("\u00c9t\u00e9_\u00e0 Paris!") == "ete a paris"
    assert indexed("In Paris:\tparse_date!") == "in paris parse date"
    assert indexed("The houses of Parisians", "en") == "the hous of parisian"
    assert indexed("\u304c\u3071") == "\u304c \u3071", "a mark that tells kana apart stays"


@given(st.text(st.characters()), st.text(st.characters()))
def test_no_question_is_an_error(text: str, question: str) -> None:
    finds(text, question)
