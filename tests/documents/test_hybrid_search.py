"""A question finds passages by words and by meaning; it does not wait long for meaning, and repeats are removed."""

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import replace

import numpy as np
import pytest

from app.conversation.citation_check import SIMILAR
from app.database.database import Database
from app.documents import embedding
from app.documents.embedding import NO_EMBEDDER, Cosines, Vectors
from app.documents.hybrid_search import (
    LONGEST_QUESTION,
    MIN_SHARE,
    MIN_SHARE_ALONE,
    MIN_SIMILARITY,
    Candidate,
    Searcher,
    fuse,
    near_enough,
    without_repeats,
)
from app.documents.search.bm25 import Bm25Hit
from app.errors import EngineClosed
from app.values.document import Passage, PassageHit
from tests.documents.search.library import WordEmbedder, add_document, word_vector

TEXTS = ["The automobile stands in the garage.", "The lease ends in May.", "Bread is baked in the morning."]


@pytest.fixture
def ids(database: Database) -> list[int]:
    ids = add_document(database, TEXTS)
    with database.writing() as connection:
        embedding.put_vectors(connection, "words", ids, np.array([word_vector(text) for text in TEXTS]))
    return ids


def found(searcher: Searcher, question: str, limit: int = 3) -> list[int]:
    return [one.passage.id for one in searcher.search([1], question, limit)]


@pytest.mark.usefixtures("ids")
def test_meaning_finds_what_words_do_not(database: Database) -> None:
    assert found(Searcher(database, NO_EMBEDDER), "car") == []
    (one,) = Searcher(database, WordEmbedder()).search([1], "car", 3)
    assert one.passage.text == TEXTS[0]
    assert (one.bm25_rank, one.similarity_rank) == (0, 1) and one.similarity > 0.3


def test_words_find_alone(database: Database, ids: list[int]) -> None:
    (one,) = Searcher(database, NO_EMBEDDER).search([1], "When does the lease end?", 3)
    assert (one.passage.id, one.bm25_rank, one.similarity_rank) == (ids[1], 1, 0)
    assert one.share > 0.4


def test_of_a_question_of_megabytes_the_beginning_is_searched(database: Database, ids: list[int]) -> None:
    class ShortEmbedder(WordEmbedder):
        """Takes no more than the engine reads at once."""

        def embed(self, texts: Sequence[str]) -> Future[Vectors]:
            assert max(map(len, texts)) <= LONGEST_QUESTION
            return super().embed(texts)

    question = "When does the lease end? " * 200_000
    assert ids[1] in found(Searcher(database, ShortEmbedder()), question)


@pytest.mark.usefixtures("ids")
def test_a_question_about_something_else_finds_nothing(database: Database) -> None:
    assert found(Searcher(database, WordEmbedder()), "quantum chromodynamics") == []


def test_while_the_engine_is_busy_words_answer(database: Database, ids: list[int]) -> None:
    embedder = WordEmbedder()
    embedder.is_busy = True
    assert found(Searcher(database, embedder, max_wait=0.01), "lease") == [ids[1]]
    assert embedder.answers[0].cancelled()


def test_a_broken_model_leaves_words(database: Database, ids: list[int]) -> None:
    embedder = WordEmbedder()
    embedder.error = EngineClosed("Foresight is closing.")
    assert found(Searcher(database, embedder), "lease") == [ids[1]]


def test_similarities_are_calibrated_if_all_cosines_of_a_model_are_large(database: Database) -> None:
    def narrow(texts: Sequence[str]) -> Vectors:
        """Vectors with a large part that is the same, so that their cosines are at least 0.8."""
        return np.array([[*(0.2**0.5 * word_vector(text)), 0.8**0.5] for text in texts], np.float32)

    class NarrowEmbedder(WordEmbedder):
        def embed(self, texts: Sequence[str]) -> Future[Vectors]:
            answer: Future[Vectors] = Future()
            answer.set_result(narrow(texts))
            return answer

    passages = [*TEXTS, *(f"The {number}th word is long." for number in range(30))]
    ids = add_document(database, passages)
    with database.writing() as connection:
        embedding.put_vectors(connection, "words", ids, narrow(passages))
    ((near, *far),) = Searcher(database, NarrowEmbedder()).similarities(["car"], TEXTS)
    assert near >= SIMILAR > max(far)


def test_texts_are_compared_with_others_by_meaning_where_there_is_a_model_in_time(database: Database) -> None:
    embedder = WordEmbedder()
    car, lease = Searcher(database, embedder).similarities(["car", "the lease"], TEXTS)
    assert car[0] > 0.3 and car[1] == car[2] == 0
    assert max(lease) == lease[1]
    assert Searcher(database, NO_EMBEDDER).similarities(["car"], TEXTS) == ()
    embedder.is_busy = True
    assert list(Searcher(database, embedder, max_wait=0.01).similarities(["car"], TEXTS)) == []
    embedder.is_busy, embedder.is_gone = False, True
    assert not any(map(any, Searcher(database, embedder).similarities(["car"], TEXTS)))
    assert found(Searcher(database, embedder), "car") == []


def test_no_more_than_asked_for_and_other_collections_stay_out(database: Database, ids: list[int]) -> None:
    add_document(database, ["The other lease ends in June."], collection=2)
    searcher = Searcher(database, WordEmbedder())
    assert set(found(searcher, "lease bread")) == set(ids[1:])
    assert len(found(searcher, "lease bread", limit=1)) == 1


def hit(number: int, start: int = 0, end: int = 10, document: int = 1, text: str = "") -> PassageHit:
    return PassageHit(Passage(number, document, "", start, end, text or f"text {number}"), 1.0)


def passage_ids(some: list[PassageHit]) -> list[int]:
    return [one.passage.id for one in some]


def test_a_passage_that_lies_mostly_in_a_better_one_is_left_out() -> None:
    assert passage_ids(without_repeats([hit(1, 0, 100), hit(2, 40, 120), hit(3, 90, 200)])) == [1, 3]


def test_the_same_place_in_another_document_is_no_repeat_but_the_same_words_are() -> None:
    assert passage_ids(without_repeats([hit(1), hit(2, document=2), hit(3, document=3, text="text 1")])) == [
        1,
        2,
    ]


def order(*found: Candidate) -> list[int]:
    return [one.passage for one in found]


def cosines(known: dict[int, float], number: int = 100, mean: float = 0.0, deviation: float = 0.1) -> Cosines:
    return Cosines(number, mean, deviation, sorted(known, key=lambda one: -known[one]), known)


def test_what_both_find_is_before_what_one_finds() -> None:
    words = [Bm25Hit(1, 9.0, 0.8), Bm25Hit(2, 8.0, 0.8)]
    assert order(*fuse(words, cosines({3: 0.9, 2: 0.8})))[0] == 2


def test_words_that_cover_the_question_outweigh_meaning_and_a_single_shared_word_does_not() -> None:
    meaning = cosines({7: 0.5})
    assert order(*fuse([Bm25Hit(1, 5.0, 1.0)], meaning)) == [1, 7]
    assert order(*fuse([Bm25Hit(1, 5.0, 0.2)], meaning)) == [7, 1]


def test_a_cosine_counts_by_how_far_it_is_from_the_others_of_its_collection() -> None:
    """With E5 models all cosines are large: 0.05 more is much."""
    words = [Bm25Hit(1, 9.0, 0.5), Bm25Hit(2, 8.0, 0.4)]
    assert order(*fuse(words, cosines({1: 0.75, 2: 0.80}, mean=0.75, deviation=0.02))) == [2, 1]
    assert order(*fuse(words, cosines({1: 0.75, 2: 0.80}, mean=0.10, deviation=0.10))) == [1, 2]
    assert order(*fuse(words, cosines({1: 0.75, 2: 0.75}, mean=0.75, deviation=0.0))) == [1, 2]


def test_a_passage_that_has_no_vector_yet_counts_as_one_with_the_mean_cosine() -> None:
    found = fuse([Bm25Hit(1, 9.0, 1.0)], cosines({2: 0.80}, mean=0.75, deviation=0.02))
    assert [(one.passage, one.score) for one in found] == [(1, 8.0), (2, pytest.approx(2.5))]


def test_those_that_only_words_have_found_are_told_their_similarity() -> None:
    found = fuse([Bm25Hit(1, 1.0, 0.3)], replace(cosines({2: 0.6, 1: 0.4}), nearest=[2]))
    assert {one.passage: (one.similarity, one.similarity_rank) for one in found} == {1: (0.4, 0), 2: (0.6, 1)}


def test_what_has_little_to_do_with_the_question_is_left_out() -> None:
    by_words, by_meaning = Candidate(1, 1.0, share=MIN_SHARE), Candidate(2, 1.0, similarity=MIN_SIMILARITY)
    neither = Candidate(3, 1.0, share=MIN_SHARE - 0.01, similarity=MIN_SIMILARITY - 0.01)
    assert near_enough([by_words, by_meaning, neither], cosines({})) == [by_words, by_meaning]
    alone, half = Candidate(4, 1.0, share=MIN_SHARE_ALONE), Candidate(5, 1.0, share=MIN_SHARE_ALONE / 2)
    assert near_enough([half, alone, Candidate(6, 1.0, share=0.01)], None) == [half, alone]
    assert near_enough([half], None) == []
    assert near_enough([alone], None) == [alone]
    assert near_enough([alone], cosines({})) == []


def test_a_fifth_of_the_rare_words_is_enough_without_a_model() -> None:
    """German and Chinese questions whose passage has few of their words were refused."""
    few = Candidate(1, 1.0, share=0.21)
    assert near_enough([few], None) == [few]


@pytest.mark.parametrize(
    ("best", "share", "number", "is_found"),
    [(0.81, 0.1, 120, False), (0.83, 0.1, 120, True), (0.81, 0.3, 120, True), (0.81, 0.1, 60, True)],
)
def test_if_all_cosines_are_large_the_best_passage_must_stand_out(
    best: float, share: float, number: int, is_found: bool
) -> None:
    """E5 models give every passage a cosine above 0.7, so that questions about other texts found passages."""
    one = Candidate(1, 1.0, share=share, similarity=best)
    found = near_enough([one], cosines({1: best}, number, mean=0.76, deviation=0.02))
    assert found == ([one] if is_found else [])


def test_before_passages_have_vectors_words_alone_decide(database: Database) -> None:
    (lease,) = add_document(database, ["The lease ends in May."])
    question = "Does the lease allow a walrus?"
    assert found(Searcher(database, NO_EMBEDDER), question) == [lease]
    assert found(Searcher(database, WordEmbedder()), question) == [lease]
