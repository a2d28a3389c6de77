"""Two rankings made one."""

import pytest

from app.documents.search.bm25 import Bm25Hit
from app.documents.searcher import (
    MIN_SHARE,
    MIN_SHARE_ALONE,
    MIN_SIMILARITY,
    RANK_OFFSET,
    Candidate,
    fuse,
    near_enough,
    with_similarity,
)


def order(*found: Candidate) -> list[int]:
    return [one.passage for one in found]


def test_what_both_find_is_before_what_one_finds() -> None:
    words = [Bm25Hit(1, 9.0, 0.8), Bm25Hit(2, 8.0, 0.8)]
    assert order(*fuse(words, [(3, 0.9), (2, 0.8)]))[0] == 2


def test_words_that_cover_the_question_outweigh_meaning_and_a_single_shared_word_does_not() -> None:
    meaning = [(7, 0.5)]
    assert order(*fuse([Bm25Hit(1, 5.0, 1.0)], meaning)) == [1, 7]
    assert order(*fuse([Bm25Hit(1, 5.0, 0.2)], meaning)) == [7, 1]


def test_a_candidate_knows_where_it_comes_from() -> None:
    (both,) = fuse([Bm25Hit(4, 6.0, 0.5)], [(4, 0.7)])
    assert (both.bm25, both.bm25_rank, both.share) == (6.0, 1, 0.5)
    assert (both.similarity, both.similarity_rank) == (0.7, 1)
    assert both.score == pytest.approx((2 * 0.25 + 1) / (RANK_OFFSET + 1))


def test_nothing_merges_to_nothing() -> None:
    assert fuse([], []) == []


def test_those_that_only_words_have_found_are_told_their_similarity() -> None:
    found = with_similarity(fuse([Bm25Hit(1, 1.0, 0.3)], [(2, 0.6)]), {1: 0.4, 2: 0.1})
    assert {one.passage: one.similarity for one in found} == {1: 0.4, 2: 0.6}


def test_what_has_little_to_do_with_the_question_is_left_out() -> None:
    by_words, by_meaning = Candidate(1, 1.0, share=MIN_SHARE), Candidate(2, 1.0, similarity=MIN_SIMILARITY)
    neither = Candidate(3, 1.0, share=MIN_SHARE - 0.01, similarity=MIN_SIMILARITY - 0.01)
    assert near_enough([by_words, by_meaning, neither], has_meaning=True) == [by_words, by_meaning]
    alone = Candidate(4, 1.0, share=MIN_SHARE_ALONE)
    assert near_enough([alone], has_meaning=False) == [alone]
    assert near_enough([alone], has_meaning=True) == []
