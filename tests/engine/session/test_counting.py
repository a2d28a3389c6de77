"""Counting in parts is counting at once."""

import re

from app.engine.text.reader import in_parts

BORDERS = ["<user>", "<end>"]


def words(text: str) -> int:
    """One token for each special one, one for each word, one for each run of spaces."""
    return len(re.findall(r"<user>|<end>|\w+|\W", text))


def words_with_a_beginning(text: str) -> int:
    """A tokenizer that puts a token where a text begins."""
    return words(text) + 1


def test_only_what_is_new_of_a_text_is_read() -> None:
    read: list[str] = []

    def count(text: str) -> int:
        read.append(text)
        return words(text)

    counted = in_parts(count, BORDERS)
    first = "<user>Hi you<end><user>How a"
    assert counted(first) == words(first)
    read.clear()
    assert counted(first + "re") == words(first + "re")
    assert read == ["How are"]


def test_a_tokenizer_that_reads_beginnings_unlike_the_rest_reads_all_at_once() -> None:
    counted = in_parts(words_with_a_beginning, BORDERS)
    text = "<user>Hi you<end><user>How are"
    assert counted(text) == words_with_a_beginning(text)


def test_without_special_tokens_all_is_one_part() -> None:
    assert in_parts(words, []) is words
    assert in_parts(words, BORDERS)("") == 0


def test_a_longer_special_token_is_not_cut_by_a_shorter_one_that_begins_it() -> None:
    def count(text: str) -> int:
        return len(re.findall(r"<s2>|<s|.", text))

    assert in_parts(count, ["<s", "<s2>"])("a<s2>b<sc") == 5
