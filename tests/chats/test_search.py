"""Chats are found by their words."""

import sqlite3

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.chats.chats import Chats
from app.chats.search import AFTER, BEFORE, excerpt, folded, fts_query
from app.database.database import Database
from app.values.chat import MessageContent
from app.values.text_normalisation import spaced, storable
from tests.chats.samples import answer

MATCHING = "SELECT 1 FROM message_words WHERE message_words MATCH ?"


def found(chats: Chats, words: str) -> list[str]:
    return [one.summary.title for one in chats.search(words)]


@pytest.fixture
def library(chats: Chats) -> Chats:
    answer(chats, chats.create(title="Cooking"), "How long do eggs boil?", "Naïve cooks say: four minutes.")
    answer(chats, chats.create(title="中文"), "用于全文搜索的句子", "好的 日本語とไทย และ 한국어도.")
    answer(chats, chats.create(title="Code"), "Why C++ and not foo_bar()?", 'He said "NEAR(a b)" AND left.')
    return chats


@pytest.mark.parametrize(
    ("words", "titles"),
    [
        ("boil", ["Cooking"]),
        ("boi", ["Cooking"]),
        ("boi eggs", []),
        ("eggs boi", ["Cooking"]),
        ("NAIVE", ["Cooking"]),
        ("naïve", ["Cooking"]),
        ("nai\u0308ve", ["Cooking"]),
        ("eggs four", []),
        ("cook", ["Cooking"]),
        ("全", ["中文"]),
        ("全文", ["中文"]),
        ("搜索的句", ["中文"]),
        ("文全", []),
        ("句子 用于", ["中文"]),
        ("本語", ["中文"]),
        ("ทย", ["中文"]),
        ("국어", ["中文"]),
        ("中", ["中文"]),
        ("c++", ["Code"]),
        ("foo_bar(", ["Code"]),
        ('"near', ["Code"]),
        ("NEAR(a b)", ["Code"]),
        ("said AND left", ["Code"]),
        ("said OR left", []),
        ("*", []),
        ("", []),
        ("- ( ^ :", []),
        ("code OR cooking", []),
        ("text:eggs", []),
        ("\uff45\uff47\uff47\uff53", ["Cooking"]),
    ],
)
def test_a_search_finds_what_a_person_means(library: Chats, words: str, titles: list[str]) -> None:
    assert found(library, words) == titles


def test_each_chat_is_found_once_by_its_newest_message(chats: Chats) -> None:
    place, _ = answer(chats, chats.create(title="t"), "apple one", "apple two")
    answer(chats, place, "apple three", "pear")
    assert [one.excerpt for one in chats.search("apple")] == ["\x02apple\x03 three"]


def test_all_chats_are_found_by_title_or_message_the_last_used_first(chats: Chats) -> None:
    for number in range(40):
        answer(chats, chats.create(title=f"chat {number}"), "an apple", "yes")
    chats.create(title="apple")
    answer(chats, chats.create(title="newest"), "an apple", "yes")
    expected = ["newest", "apple", *(f"chat {number}" for number in reversed(range(40)))]
    assert found(chats, "apple") == expected
    excerpts = [one.excerpt for one in chats.search("apple", excerpts=2)]
    assert excerpts == ["an \x02apple\x03", "\x02apple\x03", *[""] * 40]


def test_a_reply_is_found_once_it_is_complete_and_as_it_is_then(chats: Chats) -> None:
    place, reply = chats.ask(chats.create(title="t"), "q")
    chats.write(reply, MessageContent("partial"))
    assert found(chats, "partial") == []
    chats.write(reply, MessageContent("complete", "done"))
    assert (found(chats, "complete"), found(chats, "partial")) == (["t"], [])
    chats.continue_reply(place, reply)
    assert found(chats, "complete") == []


def test_a_renamed_chat_is_found_by_its_new_name(chats: Chats) -> None:
    chat = chats.create(title="old").chat
    chats.rename(chat, "new")
    assert (found(chats, "old"), found(chats, "new")) == ([], ["new"])


def test_hidden_versions_are_found_too(chats: Chats) -> None:
    place, reply = answer(chats, chats.create(title="t"), "q", "first version")
    place, second = chats.regenerate(place, reply)
    chats.write(second, MessageContent("another", "done"))
    assert found(chats, "first version") == ["t"]


@given(st.text(max_size=40))
def test_no_search_is_a_mistake_in_sqlites_eyes(words: str) -> None:
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE VIRTUAL TABLE t USING fts5 (x, tokenize = 'unicode61 remove_diacritics 2')")
    if asked := fts_query(words):
        connection.execute("SELECT * FROM t WHERE t MATCH ?", (asked,)).fetchall()
    connection.close()


@given(st.text(min_size=1, max_size=60))
def test_every_text_is_found_by_itself_when_it_has_words(text: str) -> None:
    database = Database(":memory:")
    chats = Chats(database)
    chats.add(chats.create(title="t"), "user", text)
    with database.reading() as connection:
        asked = (fts_query(text) or "x",)
        expected = bool(connection.execute(MATCHING, asked).fetchone())
    assert bool(chats.search(text)) == expected
    assert expected or not any("a" <= character <= "z" for character in text)
    database.close()


@given(st.text(max_size=300), st.text(max_size=20))
def test_an_excerpt_is_a_part_of_the_text(text: str, words: str) -> None:
    seen = excerpt(text, words)
    assert seen.count(BEFORE) == seen.count(AFTER)
    bare = seen.replace(BEFORE, "").replace(AFTER, "")
    assert len(bare) <= 122
    assert "\n" not in bare


def test_an_excerpt_begins_near_what_was_found() -> None:
    text = "start " * 100 + "needle in it " + "end " * 100
    seen = excerpt(text, "NEEDLE")
    assert seen.startswith("…start start") and "\x02needle\x03 in it end" in seen and seen.endswith("…")


@given(st.text(max_size=200))
def test_folding_keeps_every_character_in_its_place(text: str) -> None:
    assert len(folded(text)) == len(text)


@given(st.text(st.characters(codec=None), max_size=50))
def test_whatever_is_typed_can_be_kept(text: str) -> None:
    assert len(storable(text).encode("utf-8")) >= len(text)
    spaced(text).encode("utf-8")
