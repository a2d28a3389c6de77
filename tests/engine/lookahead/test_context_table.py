"""The table finds what it was taught, forgets what was displaced, and never says what it was not taught."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from app.engine.block.context_entries import (
    FOLLOWERS,
    MOST_TOKENS,
    SUCCESSORS,
    Packed,
    pack_follower,
    pack_successors,
    unpack_successor,
)
from app.engine.lookahead.context_table import LONGEST, ContextEntries, ContextTable, last_tokens

VOCABULARY = 50
ROOMY = 16
CONTEXTS = st.lists(st.integers(0, 9), min_size=1, max_size=LONGEST)
NOTHING = ContextEntries([], 0, [], 0)


def table(bits: int = ROOMY) -> ContextTable:
    return ContextTable(VOCABULARY, bits)


def entry(token: int) -> int:
    return pack_follower(token, "output", 0)


def followers(found: ContextEntries) -> list[int]:
    return [(packed >> 11) - 1 for packed in found.followers]


def successors(found: ContextEntries) -> list[int]:
    return [unpack_successor(packed)[0] for packed in found.successors]


def says(*tokens: int) -> Packed:
    """One row of successors, best first."""
    return pack_successors(np.array([tokens]), -np.arange(len(tokens), dtype=np.float32)[None])


def behind(*contexts: list[int]) -> NDArray[np.int64]:
    return np.array([last_tokens(context) for context in contexts])


def test_what_followed_a_context_follows_it_and_every_shorter_one() -> None:
    known = table()
    known.learn_follower([1, 2, 3, 4], entry(9))
    for context, length in (([1, 2, 3, 4], 4), ([7, 2, 3, 4], 3), ([3, 4], 2), ([4], 1), ([8, 8, 8, 4], 1)):
        found = known.lookup(context)
        assert (followers(found), found.follower_length) == ([9], length)
    assert known.lookup([1, 2, 3]) == NOTHING


def test_each_kind_speaks_for_the_longest_context_that_it_knows() -> None:
    known = table()
    known.learn_follower([1, 2, 3], entry(10))
    known.learn_successors(behind([2, 3]), says(20, 21))
    found = known.lookup([1, 2, 3])
    assert (followers(found), found.follower_length) == ([10], 3)
    assert (successors(found), found.successor_length) == ([20, 21], 2)


def test_the_newest_follower_comes_first_and_the_oldest_goes() -> None:
    known = table()
    for token in range(10, 10 + FOLLOWERS + 2):
        known.learn_follower([1], entry(token))
    assert followers(known.lookup([1])) == list(range(10 + FOLLOWERS + 1, 11, -1))


def test_what_follows_again_is_the_newest_again_and_takes_no_more_room() -> None:
    known = table()
    assert [known.learn_follower([1, 2], entry(token)) for token in (10, 11, 10)] == [True, True, False]
    assert followers(known.lookup([1, 2])) == [10, 11]


def test_new_successors_take_the_place_of_the_old_ones_and_leave_the_followers() -> None:
    known = table()
    known.learn_follower([1, 2], entry(10))
    known.learn_successors(behind([1, 2]), says(20, 21, 22))
    known.learn_successors(behind([1, 2]), says(23))
    found = known.lookup([1, 2])
    assert (successors(found), followers(found)) == ([23], [10])


def test_what_is_known_of_each_token_alone_is_there_from_the_beginning() -> None:
    known = table()
    known.set_first_successors(
        np.concatenate([says(30), np.zeros((1, SUCCESSORS), dtype=np.int32), says(31)])
    )
    assert [successors(known.lookup([token])) for token in range(4)] == [[30], [], [31], []]
    found = known.lookup([7, 7, 7, 2])
    assert (successors(found), found.successor_length) == ([31], 1)


def test_where_no_token_is_known_those_likely_anywhere_are_given() -> None:
    known = table()
    known.set_anywhere(says(40)[0])
    known.learn_successors(behind([5, 0]), says(33))
    found = known.lookup([7, 7])
    assert (successors(found), found.successor_length) == ([40], 0)
    assert successors(known.lookup([7, 0])) == [33]


def test_what_a_reply_says_of_a_token_writes_over_the_beginning() -> None:
    known = table()
    known.set_first_successors(says(30))
    known.learn_successors(behind([5, 0]), says(33))
    assert successors(known.lookup([0])) == [33]
    known.set_first_successors(np.concatenate([says(30), says(31)]))
    assert [successors(known.lookup([token])) for token in (0, 1)] == [[33], [31]], "and stays"


@given(
    texts=st.lists(st.lists(st.integers(0, 9), min_size=2, max_size=12), max_size=8), bits=st.integers(1, 16)
)
def test_however_small_a_table_it_may_forget_but_never_lies(texts: list[list[int]], bits: int) -> None:
    known, truth = table(bits), set[tuple[tuple[int, ...], int]]()
    for text in texts:
        for end in range(1, len(text)):
            context = text[max(end - LONGEST, 0) : end]
            known.learn_follower(context, entry(text[end]))
            truth |= {(tuple(context[-length:]), text[end]) for length in range(1, len(context) + 1)}
    for text in texts:
        for end in range(1, len(text)):
            context = text[max(end - LONGEST, 0) : end]
            found = known.lookup(context)
            matched = tuple(context[len(context) - found.follower_length :])
            assert found.follower_length >= 1, "of a token alone nothing is ever displaced"
            assert {(matched, token) for token in followers(found)} <= truth


@given(
    asked=st.lists(st.tuples(CONTEXTS, st.integers(0, 40)), min_size=1, max_size=30), bits=st.integers(1, 16)
)
def test_successors_of_a_small_table_are_forgotten_but_never_mixed_up(
    asked: list[tuple[list[int], int]], bits: int
) -> None:
    known, truth = table(bits), set[tuple[tuple[int, ...], int]]()
    known.learn_successors(
        behind(*(context for context, _ in asked)), np.concatenate([says(said) for _, said in asked])
    )
    for context, said in asked:
        truth |= {(tuple(context[-length:]), said) for length in range(1, len(context) + 1)}
    for context, _ in asked:
        found = known.lookup(context)
        matched = tuple(context[len(context) - found.successor_length :])
        assert {(matched, token) for token in successors(found)} <= truth
        assert found.successor_length >= 1


def test_a_newer_context_displaces_an_older_one_in_its_row() -> None:
    known = ContextTable(VOCABULARY, bits=1)
    for token in range(40):
        known.learn_follower([token, 1], entry(token))
    assert followers(known.lookup([39, 1])) == [39]
    found = known.lookup([0, 1])
    assert (found.follower_length, followers(found)[0]) == (1, 39), "only the token alone still knows it"


@given(asked=st.lists(st.tuples(CONTEXTS, st.booleans()), min_size=1, max_size=30), bits=st.integers(1, 8))
def test_a_context_that_takes_a_row_over_takes_nothing_else_with_it(
    asked: list[tuple[list[int], bool]], bits: int
) -> None:
    """Texts and the model teach by turns."""
    known = table(bits)
    for context, is_text in asked:
        said = 10 * len(context) + context[0]
        if is_text:
            known.learn_follower(context, entry(said))
        else:
            known.learn_successors(behind(context), says(said))
    truth = {
        (tuple(context[-length:]), 10 * len(context) + context[0])
        for context, _ in asked
        for length in range(1, len(context) + 1)
    }
    for context, _ in asked:
        found = known.lookup(context)
        for tokens, length in (
            (followers(found), found.follower_length),
            (successors(found), found.successor_length),
        ):
            assert {(tuple(context[len(context) - length :]), token) for token in tokens} <= truth


def test_a_table_takes_the_same_memory_whatever_it_is_taught() -> None:
    known = table(bits=6)
    before = known.rows.nbytes
    for number in range(2000):
        known.learn_follower([number % 50, number % 49, number % 47, number % 43], entry(number % 50))
    assert known.rows.nbytes == before == (VOCABULARY + 64) * 64


@pytest.mark.parametrize("vocabulary", [0, -1, MOST_TOKENS + 1])
def test_a_vocabulary_that_does_not_fit_is_refused_with_its_size(vocabulary: int) -> None:
    with pytest.raises(ValueError, match=f"from 1 to 1,048,575 tokens, not {vocabulary:,}"):
        ContextTable(vocabulary, 4)
