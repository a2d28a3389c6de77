"""The n-gram pool, on cases small enough to do by hand."""

from itertools import pairwise, permutations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from app.engine.lookahead.pool import Candidate, NGramPool

LINES = st.lists(st.lists(st.integers(0, 5), min_size=1, max_size=12), max_size=12)


def guesses(pool: NGramPool, *context: int) -> list[tuple[int, ...]]:
    return [candidate.tokens for candidate in pool.candidates(context)]


def learned(*lines: list[int], ngram: int = 3, guesses: int = 4, capacity: int = 1000) -> NGramPool:
    pool = NGramPool(ngram, guesses, capacity)
    for line in lines:
        pool.learn(line, len(line), "prompt")
    return pool


def test_the_newest_token_of_a_line_files_three_n_grams_and_one_that_grew_takes_its_old_place() -> None:
    pool = NGramPool(ngram=3, guesses=4)
    pool.learn([1, 2], 1, "output")
    assert (len(pool), guesses(pool, 1)) == (1, [(2,)])
    pool.learn([1, 2, 3], 1, "output")
    assert len(pool) == 3
    assert guesses(pool, 1) == [(2, 3)]
    assert guesses(pool, 2) == guesses(pool, 1, 2) == [(3,)]


def test_the_longest_match_comes_first_then_the_newest() -> None:
    pool = learned([1, 2, 3], [9, 2, 4], [8, 2, 5], ngram=2)
    assert guesses(pool, 1, 2) == [(3,), (5,), (4,)]
    assert guesses(pool, 2) == [(5,), (4,), (3,)]


def test_what_is_seen_again_is_the_newest_again() -> None:
    pool = learned([2, 3], [2, 4], [2, 3], ngram=2)
    assert guesses(pool, 2) == [(3,), (4,)]


def test_a_short_guess_is_lengthened_by_what_most_likely_follows_it() -> None:
    pool = learned([1, 2], [2, 3, 4], [4, 5], ngram=5)
    assert guesses(pool, 1) == [(2, 3, 4, 5)]


def test_a_guess_has_at_most_n_minus_one_tokens() -> None:
    assert guesses(learned([1, 2, 3, 4, 5, 6], ngram=4), 1) == [(2, 3, 4)]


def test_each_candidate_tells_its_source() -> None:
    pool = NGramPool(ngram=2, guesses=4)
    pool.learn([1, 2], 1, "window")
    pool.learn([1, 3], 1, "successor")
    assert pool.candidates([1]) == [Candidate((3,), "successor"), Candidate((2,), "window")]


def test_the_newest_source_of_an_n_gram_counts() -> None:
    pool = NGramPool(ngram=2, guesses=4)
    pool.learn([1, 2], 1, "window")
    pool.learn([1, 2], 1, "output")
    assert pool.candidates([1]) == [Candidate((2,), "output")]


def test_only_the_last_new_tokens_are_learned() -> None:
    pool = NGramPool(ngram=2, guesses=4)
    pool.learn([1, 2, 3, 4], 1, "output")
    assert (guesses(pool, 1), guesses(pool, 2), guesses(pool, 3)) == ([], [], [(4,)])


@pytest.mark.parametrize("context", [(), (7,), (7, 7)])
def test_what_was_never_seen_has_no_guesses(context: tuple[int, ...]) -> None:
    assert guesses(learned([1, 2, 3]), *context) == []


def test_with_no_guesses_wanted_there_are_none() -> None:
    assert guesses(learned([1, 2], guesses=0), 1) == []


def test_a_continuation_follows_the_best_matches() -> None:
    assert learned([1, 2, 3, 4, 5]).continuation([1, 2], 3) == [3, 4, 5]


def test_a_continuation_of_the_unknown_is_the_context_once_more() -> None:
    assert learned().continuation([7, 8, 9], 5) == [7, 8, 9, 7, 8]


def test_a_continuation_has_the_asked_length_even_in_the_middle_of_a_match() -> None:
    assert learned([1, 2, 3, 4], ngram=4).continuation([1], 2) == [2, 3]


def test_beyond_the_capacity_the_longest_unused_keys_go() -> None:
    pool = learned([1, 2], [3, 4], [5, 6], ngram=2, capacity=2)
    assert (guesses(pool, 1), guesses(pool, 3), guesses(pool, 5)) == ([], [(4,)], [(6,)])


def test_a_key_that_is_used_again_outlives_one_that_is_not() -> None:
    pool = learned([1, 2], [3, 4], [1, 5], [6, 7], ngram=2, capacity=3)
    assert (guesses(pool, 1), guesses(pool, 3), guesses(pool, 6)) == ([(5,), (2,)], [], [(7,)])


def test_beyond_two_guesses_for_each_that_is_asked_the_oldest_of_a_key_go() -> None:
    pool = learned(*([1, token] for token in range(10, 15)), ngram=2, guesses=2)
    assert (len(pool), guesses(pool, 1)) == (4, [(14,), (13,)])


@given(lines=LINES, ngram=st.integers(2, 5), guesses=st.integers(0, 4), capacity=st.integers(1, 40))
def test_the_pool_never_holds_more_than_its_capacity(
    lines: list[list[int]], ngram: int, guesses: int, capacity: int
) -> None:
    pool = NGramPool(ngram, guesses, capacity)
    for line in lines:
        pool.learn(line, len(line), "output")
        assert len(pool) <= capacity


# What follows 1 was evicted, so the first guess behind 0 stays short, and the second one begins with it.
@example(lines=[[0, 1, 0, 0, 1]], ngram=3, guesses=3, capacity=5)
@given(lines=LINES, ngram=st.integers(2, 5), guesses=st.integers(0, 4), capacity=st.integers(1, 40))
def test_there_are_at_most_g_candidates_and_none_is_the_beginning_of_another(
    lines: list[list[int]], ngram: int, guesses: int, capacity: int
) -> None:
    pool = learned(*lines, ngram=ngram, guesses=guesses, capacity=capacity)
    for context in ([0], [1, 2], [3, 3]):
        found = [candidate.tokens for candidate in pool.candidates(context)]
        assert len(found) <= guesses
        assert all(1 <= len(tokens) < ngram for tokens in found)
        assert not any(one == other[: len(one)] for one, other in permutations(found, 2))


@given(lines=LINES, ngram=st.integers(2, 5))
def test_a_guess_begins_with_a_token_that_once_followed(lines: list[list[int]], ngram: int) -> None:
    pool = learned(*lines, ngram=ngram)
    pairs = {pair for line in lines for pair in pairwise(line)}
    for token in range(6):
        assert all((token, guess[0]) in pairs for guess in guesses(pool, token))


@given(line=st.lists(st.integers(0, 5), max_size=20), ngram=st.integers(2, 5))
def test_a_text_is_learned_alike_at_once_and_token_by_token(line: list[int], ngram: int) -> None:
    at_once, in_pieces = learned(line, ngram=ngram), NGramPool(ngram, 4, 1000)
    for end in range(1, len(line) + 1):
        in_pieces.learn(line[:end], 1, "prompt")
    assert len(at_once) == len(in_pieces)
    assert [guesses(at_once, token) for token in range(6)] == [guesses(in_pieces, t) for t in range(6)]
